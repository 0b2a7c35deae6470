//! Beam search: with beams for all texts that there are it finds them in order.

use attention_tests::{Array, device, refuses};
use attention_transformers::{Beam, BeamConfig, SelectTexts};
use burn::tensor::{Int, Tensor};

use super::generation::{Given, Table};

const STOP: u32 = 4;
const EXCLUDED: u32 = 3;
const MOST: usize = 4;

impl SelectTexts for Given {
    fn select(&mut self, indices: Tensor<1, Int>) {
        let indices = indices.into_data();
        let selected = indices
            .iter::<i64>()
            .map(|at| self.tokens[at as usize].clone());
        self.tokens = selected.collect();
    }
}

fn table() -> Table {
    let drawn = Array::draw(7, &[5, 5]);
    let row = |last: usize| {
        (0..5)
            .map(|token| 2.0 * drawn.at(&[last, token]) as f32)
            .collect()
    };
    Table {
        logits: (0..5).map(row).collect(),
        device: device::plain()[0].clone(),
    }
}

/// All texts after `last`, by plain loops, of which `tokens` and their log-probability are there.
fn all(config: &BeamConfig, last: u32, tokens: &[u32], sum: f64, found: &mut Vec<Beam>) {
    let logits = &table().logits[last as usize];
    let counted = (0..5).filter(|token| !config.renormalize || *token != EXCLUDED);
    let total: f64 = counted
        .map(|token| f64::from(logits[token as usize]).exp())
        .sum();
    for token in (0..5).filter(|token| *token != EXCLUDED) {
        let sum = sum + f64::from(logits[token as usize]) - total.ln();
        let text = [tokens, &[token]].concat();
        if token == STOP || text.len() == MOST {
            let score = sum / (text.len() as f64).powf(config.length_penalty);
            found.push(Beam {
                tokens: text,
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
            .with_length_penalty(length_penalty);
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
    let generate = |config: BeamConfig, prompt: Vec<u32>| {
        config.generate(&table(), Given::default(), &[prompt]);
    };
    let none = "at least one token expected in each prompt, got none in prompt 0";
    refuses(none, || generate(BeamConfig::new(2, 3), Vec::new()));
    refuses("beams expected at least 1", || {
        generate(BeamConfig::new(0, 3), vec![0])
    });
    refuses("max_tokens expected at least 1", || {
        generate(BeamConfig::new(2, 0), vec![0])
    });
    let penalty = BeamConfig::new(2, 3).with_length_penalty(f64::NAN);
    refuses("length_penalty expected a finite number", || {
        generate(penalty, vec![0])
    });
    let last = BeamConfig::new(2, 3).with_last_token(Some(5));
    refuses("last_token expected in 0..5, got 5", || {
        generate(last, vec![0])
    });
    let nothing = BeamConfig::new(2, 3).with_excluded_tokens((0..5).collect());
    refuses("a token that is not excluded expected, got none", || {
        generate(nothing, vec![0])
    });
}
