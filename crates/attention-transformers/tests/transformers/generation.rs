//! Generation: the tokens of full forward passes, ends, and random choices that a seed decides.

use attention_core::NewRows;
use attention_tests::{Array, device, refuses};
use attention_transformers::generate::FinishReason::{self, MaxTokens, StopSequence, StopToken};
use attention_transformers::generate::{CausalModel, RandomSamplingConfig};
use attention_transformers::{GenerateConfig, Sampling};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::models::{VOCAB, models, tensor, text};

/// A model whose logits are a row by the last token and, if there are any, a row by the number of tokens before it,
/// added up; its state says what it was given.
pub(super) struct Table {
    pub(super) logits: Vec<Vec<f32>>,
    positions: Vec<Vec<f32>>,
    pub(super) device: Device,
}

impl Table {
    pub(super) fn new(logits: Vec<Vec<f32>>, positions: Vec<Vec<f32>>) -> Self {
        Self {
            logits,
            positions,
            device: device::plain()[0].clone(),
        }
    }

    /// The logits after a text.
    pub(super) fn next(&self, text: &[u32]) -> Vec<f32> {
        let by_token = &self.logits[*text.last().unwrap() as usize];
        let has_positions = !self.positions.is_empty();
        let by_position = has_positions.then(|| &self.positions[text.len() - 1]);
        let at = |token: usize| by_token[token] + by_position.map_or(0.0, |row| row[token]);
        (0..by_token.len()).map(at).collect()
    }
}

/// The tokens of each example, and how many rows each call had.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pub(super) tokens: Vec<Vec<u32>>,
    rows: Vec<usize>,
}

impl CausalModel for Table {
    type State = Given;

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn next_logits(&self, tokens: Tensor<2, Int>, rows: NewRows, given: &mut Given) -> Tensor<2> {
        let [batch, num_rows] = tokens.dims();
        let tokens: Vec<i64> = tokens.into_data().iter::<i64>().collect();
        let lens = match rows {
            NewRows::All => vec![num_rows; batch],
            NewRows::First(lens) => lens.to_vec(),
            NewRows::Last(_) => panic!("padding is at the right"),
        };
        given.tokens.resize(batch, Vec::new());
        given.rows.push(num_rows);
        let mut logits: Vec<f32> = Vec::new();
        for b in 0..batch {
            let own = &tokens[b * num_rows..][..lens[b]];
            given.tokens[b].extend(own.iter().map(|token| *token as u32));
            logits.extend(self.next(&given.tokens[b]));
        }
        let vocab = self.logits.len();
        Tensor::from_data(TensorData::new(logits, [batch, vocab]), &self.device)
    }
}

/// Each token is followed by the next one, the last by the first.
fn counting(vocab: usize) -> Table {
    let row = |last: usize| {
        let mut logits = vec![0.0; vocab];
        logits[(last + 1) % vocab] = 5.0;
        logits
    };
    Table::new((0..vocab).map(row).collect(), vec![])
}

fn run(config: &GenerateConfig, prompts: &[Vec<u32>]) -> Vec<(Vec<u32>, FinishReason)> {
    let model = counting(10);
    let texts = config.generate(&model, Given::default(), prompts).run();
    let ended = texts.into_iter();
    let ended = ended.map(|text| (text.tokens, text.finish_reason.unwrap()));
    ended.collect()
}

#[test]
fn greedy_tokens_are_those_of_whole_texts() {
    device::each(|device| {
        for (name, model) in models(device, DType::F32) {
            let prompts = [text(1, [1, 3]), text(2, [1, 7]), text(3, [1, 1])].concat();
            let texts = model.generate(&GenerateConfig::new(8), &prompts);
            for (prompt, generated) in prompts.iter().zip(&texts) {
                let mut whole = prompt.clone();
                for _ in 0..8 {
                    let tokens = tensor(std::slice::from_ref(&whole), device);
                    let logits = Array::read(model.whole(tokens, NewRows::All));
                    let last = logits.data.chunks(VOCAB).next_back().unwrap();
                    let best = (1..VOCAB)
                        .fold(0, |best, it| if last[it] > last[best] { it } else { best });
                    whole.push(best as u32);
                }
                assert_eq!(generated.tokens, whole[prompt.len()..], "{name}");
                assert_eq!(generated.finish_reason, Some(MaxTokens));
            }
        }
    });
}

#[test]
fn texts_end_by_length_token_or_sequence() {
    let prompts = [vec![4], vec![1, 0], vec![7, 7, 8]];
    let config = GenerateConfig::new(6)
        .with_stop_tokens(vec![7, 50])
        .with_stop_sequences(vec![vec![3, 5], vec![2, 3], vec![9, 0, 1]]);
    let expected = [
        (vec![5, 6, 7], StopToken(7)),
        (vec![1, 2, 3], StopSequence(1)),
        (vec![9, 0, 1], StopSequence(2)),
    ];
    assert_eq!(run(&config, &prompts), expected);
    let expected = [[5, 6], [1, 2], [9, 0]].map(|tokens| (tokens.to_vec(), MaxTokens));
    assert_eq!(run(&GenerateConfig::new(2), &prompts), expected);
    let found = run(&GenerateConfig::new(0), &prompts[..1]);
    assert_eq!(found, [(vec![], MaxTokens)]);
    // A prompt's own tokens are no part of a sequence.
    let config = GenerateConfig::new(3).with_stop_sequences(vec![vec![4, 5]]);
    assert_eq!(run(&config, &prompts[..1]), [(vec![5, 6, 7], MaxTokens)]);
}

#[test]
fn no_text_ends_before_the_least_number_of_tokens() {
    let by_token = GenerateConfig::new(6).with_stop_tokens(vec![6]);
    let by_sequence = GenerateConfig::new(9).with_stop_sequences(vec![vec![5, 6], vec![8, 9]]);
    for (config, min, tokens, reason) in [
        // The third would be 6; the stop token is not chosen before, and 0 is the first of the others.
        (&by_token, 2, vec![5, 6], StopToken(6)),
        (&by_token, 3, vec![5, 0, 1, 2, 3, 4], MaxTokens),
        (&by_sequence, 2, vec![5, 6], StopSequence(0)),
        (&by_sequence, 3, vec![5, 6, 7, 8, 9], StopSequence(1)),
    ] {
        let config = config.clone().with_min_tokens(min);
        assert_eq!(run(&config, &[vec![4]]), [(tokens, reason)], "{min}");
    }
}

#[test]
fn the_model_sees_each_token_once_and_none_after_the_end() {
    let model = counting(10);
    let config = GenerateConfig::new(5).with_stop_tokens(vec![6]);
    let mut generation = config.generate(&model, Given::default(), &[vec![4], vec![1, 0, 0]]);
    let steps: Vec<_> = generation.by_ref().collect();
    let first = [Some(5), Some(6), None, None, None];
    let expected: Vec<_> = (0..5).map(|at| [first[at], Some(1 + at as u32)]).collect();
    assert_eq!(steps, expected);
    let lens: Vec<usize> = generation.texts().map(|text| text.tokens.len()).collect();
    assert_eq!(lens, [2, 5]);
    let given = generation.into_state();
    assert_eq!(given.tokens, [vec![4, 5], vec![1, 0, 0, 1, 2, 3, 4]]);
    assert_eq!(given.rows, [3, 1, 1, 1, 1]);
}

#[test]
fn a_seed_decides_random_choices() {
    let sampling = Sampling::Random(RandomSamplingConfig::new().with_temperature(4.0));
    let drawn = GenerateConfig::new(40).with_sampling(sampling);
    let config = |seed| drawn.clone().with_seed(seed);
    let prompts = [vec![4], vec![4], vec![9, 2]];
    let first = run(&config(1), &prompts);
    assert_eq!(run(&config(1), &prompts), first);
    assert_ne!(run(&config(2), &prompts), first);
    // Texts of one prompt differ, and do not depend on those after them.
    assert_ne!(first[0], first[1]);
    assert_eq!(run(&config(1), &prompts[..2]), first[..2]);
}

/// Among 4,000 tokens each is as often as its probability says, within five standard deviations.
#[test]
fn tokens_are_drawn_by_their_probabilities() {
    let probabilities = [0.5, 0.25, 0.125, 0.125];
    let logits: Vec<f32> = probabilities.iter().map(|p: &f32| p.ln()).collect();
    let model = Table::new(vec![logits; 4], vec![]);
    let sampling = Sampling::Random(RandomSamplingConfig::new());
    let config = GenerateConfig::new(4000).with_sampling(sampling);
    let config = config.with_seed(3);
    let texts = config.generate(&model, Given::default(), &[[0]]).run();
    for (token, p) in probabilities.into_iter().enumerate() {
        let count = texts[0].tokens.iter().filter(|of| **of == token as u32);
        let (count, p) = (count.count() as f64, f64::from(p));
        let deviation = (4000.0 * p * (1.0 - p)).sqrt();
        let is_near = (count - 4000.0 * p).abs() < 5.0 * deviation;
        assert!(is_near, "{token}: {count}");
    }
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let model = counting(3);
    let config = || GenerateConfig::new(3);
    let refuses = |expected: &str, config: GenerateConfig, prompts: &[Vec<u32>]| {
        refuses(expected, || {
            config.generate(&model, Given::default(), prompts).run()
        });
    };
    refuses("at least one prompt expected, got none", config(), &[]);
    let message = "at least one token expected in each prompt, got none in prompt 1";
    refuses(message, config(), &[vec![1], vec![]]);
    let sampling = Sampling::Random(RandomSamplingConfig::new().with_top_k(Some(0)));
    let with_sequences = config().with_stop_sequences(vec![vec![1], vec![]]);
    let stopped = config().with_stop_tokens(vec![0, 1, 2]).with_min_tokens(2);
    #[rustfmt::skip]
    let cases = [
        ("stop_sequences of at least one token expected, got [[1], []]", with_sequences),
        ("min_tokens of at most max_tokens, 3, expected, got 4", config().with_min_tokens(4)),
        ("top_k expected", config().with_sampling(sampling)),
        ("a token expected whose logit is a number, got none for text 0", stopped),
    ];
    for (message, config) in cases {
        refuses(message, config, &[vec![1]]);
    }
}
