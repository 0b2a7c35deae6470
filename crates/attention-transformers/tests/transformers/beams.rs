//! Beam search: with beams for all texts that there are it finds them in order.

use attention_tests::{Array, refuses};
use attention_transformers::BeamConfig;
use attention_transformers::generate::SelectTexts;
use attention_transformers::generate::search::{BeamOutput, LengthPenalty};
use burn::tensor::{Int, Tensor};

use super::generation::{Given, Table};

const STOP: u32 = 4;
const EXCLUDED: u32 = 3;
const MOST: usize = 4;

impl SelectTexts for Given {
    fn select(&mut self, indices: Tensor<1, Int>) {
        let indices = indices.into_data();
        let selected = indices.iter::<i64>().map(|at| at as usize);
        self.tokens = selected.map(|at| self.tokens[at].clone()).collect();
    }
}

fn table() -> Table {
    let drawn = Array::draw(7, &[5, 5]).data;
    let row = |row: &[f64]| row.iter().map(|x| 2.0 * *x as f32).collect();
    Table::new(drawn.chunks(5).map(row).collect(), vec![])
}

/// All texts after `last`, by plain loops, of which `tokens` and their log-probability are there.
fn all(config: &BeamConfig, last: u32, tokens: &[u32], sum: f64, found: &mut Vec<BeamOutput>) {
    let logits = &table().logits[last as usize];
    let counted = (0..5).filter(|token| !config.renormalize || *token != EXCLUDED);
    let powers = counted.map(|token| f64::from(logits[token as usize]).exp());
    let total: f64 = powers.sum();
    for token in (0..5).filter(|token| *token != EXCLUDED) {
        let sum = sum + f64::from(logits[token as usize]) - total.ln();
        let text = [tokens, &[token]].concat();
        if token == STOP || text.len() == MOST {
            let score = sum / (text.len() as f64).powf(config.length_penalty.exponent());
            found.push(BeamOutput {
                tokens: text,
                ended: true,
                log_probability: sum,
                score,
            });
        } else {
            all(config, token, &text, sum, found);
        }
    }
}

#[test]
fn as_many_beams_as_texts_find_all_of_them() {
    for (length_penalty, renormalize) in [(1.0, true), (0.0, false), (-0.5, true)] {
        let config = BeamConfig::new(500, MOST)
            .with_stop_tokens(vec![STOP])
            .with_excluded_tokens(vec![EXCLUDED])
            .with_renormalize(renormalize)
            .with_length_penalty(LengthPenalty::Average(length_penalty));
        let prompts = [vec![0, 2], vec![1]];
        let found = config.generate(&table(), Given::default(), &prompts);
        for (prompt, mut found) in prompts.iter().zip(found) {
            assert!(found.is_sorted_by(|one, next| one.score >= next.score));
            let mut expected = Vec::new();
            all(&config, prompt[prompt.len() - 1], &[], 0.0, &mut expected);
            // Two of the same tokens in another order may have the same score.
            for texts in [&mut found, &mut expected] {
                texts.sort_by(|one, other| one.tokens.cmp(&other.tokens));
            }
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.tokens, expected.tokens);
                assert!((found.score - expected.score).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn a_search_that_cannot_be_is_refused() {
    let config = || BeamConfig::new(2, 3);
    let unlimited = LengthPenalty::Average(f64::NAN);
    let nothing = config().with_excluded_tokens((0..5).collect());
    let refuses = |expected: &str, config: BeamConfig, prompt: &[u32]| {
        refuses(expected, || {
            config.generate(&table(), Given::default(), &[prompt])
        });
    };
    let message = "at least one token expected in each prompt, got none in prompt 0";
    refuses(message, config(), &[]);
    #[rustfmt::skip]
    let cases = [
        ("beams expected at least 1", BeamConfig::new(0, 3)),
        ("max_tokens expected at least 1", BeamConfig::new(2, 0)),
        ("length_penalty expected a finite number", config().with_length_penalty(unlimited)),
        ("repetition_penalty expected above 0, got 0", config().with_repetition_penalty(0.0)),
        ("min_tokens of at most max_tokens, 3, expected, got 4", config().with_min_tokens(4)),
        ("last_token expected in 0..5, got 5", config().with_last_token(Some(5))),
        ("a token that is not excluded expected, got none", nothing),
    ];
    for (expected, config) in cases {
        refuses(expected, config, &[0]);
    }
}
