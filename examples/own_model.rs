//! Attention inside your own module, trained by your own loop.
//!
//! The task is recall: read pairs such as `d=3 a=7 f=0`, then answer `a=?`. The question comes after the pairs, and the
//! pairs come in any number and order, so the model has to attend to one of them. *Dive into Deep Learning* (D2L),
//! "Attention Scoring Functions": attention pooling, with lengths as in "Masked Softmax Operation".
//!
//! ```text
//! cargo run -p attention-examples --example own_model
//! ```
//!
//! A copy needs `attention-plot` beside `attention-core`, and the standard `println!` in place of `common`.

use std::error::Error;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask};
use attention_plot::HeatmapGrid;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{print, println};

const NAMES: usize = 10; // a ..= j
const NUMBERS: usize = 10; // 0 ..= 9
const MAX_PAIRS: usize = 6;
const HIDDENS: usize = 32;

/// An ordinary Burn module; attention is one of its fields.
#[derive(Module, Debug)]
struct Recall {
    asked: Embedding,
    names: Embedding,
    numbers: Embedding,
    attention: AdditiveAttention,
    answer: Linear,
}

impl Recall {
    fn new(device: &Device) -> Self {
        Self {
            asked: EmbeddingConfig::new(NAMES, HIDDENS).init(device),
            names: EmbeddingConfig::new(NAMES, HIDDENS).init(device),
            numbers: EmbeddingConfig::new(NUMBERS, HIDDENS).init(device),
            attention: AdditiveAttentionConfig::new(HIDDENS, HIDDENS, HIDDENS).init(device),
            answer: LinearConfig::new(HIDDENS, NUMBERS).init(device),
        }
    }

    /// The logits of the answers, `[batch, NUMBERS]`, and the attention weights, `[batch, MAX_PAIRS]`.
    fn forward(&self, questions: &Questions) -> (Tensor<2>, Tensor<2>) {
        let queries = self.asked.forward(questions.asked.clone());
        let keys = self.names.forward(questions.names.clone());
        let values = self.numbers.forward(questions.numbers.clone());
        let mask = Mask::valid_lens(questions.lens.clone());
        let pooled = (self.attention).forward_with_weights(queries, keys, values, &mask);
        let logits = self.answer.forward(pooled.context);
        (logits.squeeze_dim(1), pooled.weights.squeeze_dim(1))
    }
}

struct Questions {
    /// `[batch, MAX_PAIRS]`; the first `lens[b]` are the pairs of question `b`, the others are padding.
    names: Tensor<2, Int>,
    numbers: Tensor<2, Int>,
    lens: Tensor<1, Int>,
    /// `[batch, 1]`, one of the names.
    asked: Tensor<2, Int>,
    /// The number that belongs to it.
    answers: Tensor<1, Int>,
}

impl Questions {
    fn draw(batch: usize, device: &Device) -> Self {
        // The first `take` of the integers below `count`, shuffled, in each row.
        let shuffled = |count, take| {
            let noise = Tensor::<2>::random([batch, count], Distribution::Default, device);
            noise.argsort(1).narrow(1, 0, take)
        };
        let names = shuffled(NAMES, MAX_PAIRS);
        let numbers = shuffled(NUMBERS, MAX_PAIRS);
        let lens = shuffled(MAX_PAIRS, 1) + 1;
        let asked_pair = shuffled(MAX_PAIRS, 1).remainder(lens.clone());
        Self {
            asked: names.clone().gather(1, asked_pair.clone()),
            answers: numbers.clone().gather(1, asked_pair).squeeze_dim(1),
            names,
            numbers,
            lens: lens.squeeze_dim(1),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(3);

    // A training device records what gradients need; otherwise it is the same device.
    let training = device.clone().autodiff();
    let mut model = Recall::new(&training);
    let mut adam = AdamConfig::new().init();
    let cross_entropy = CrossEntropyLossConfig::new().init(&training);
    for step in 1..=300 {
        let questions = Questions::draw(64, &training);
        let (logits, _) = model.forward(&questions);
        let loss = cross_entropy.forward(logits, questions.answers);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.005, model, gradients);
        if step % 50 == 0 {
            println!("step {step}: loss {:.4}", loss.try_into_scalar::<f32>()?);
        }
    }

    // Evaluation: no gradients, no dropout, new questions.
    let model = model.valid();
    let questions = Questions::draw(500, &device);
    let answers = model.forward(&questions).0.argmax(1).squeeze_dim(1);
    let right = answers.equal(questions.answers).float().mean();
    let accuracy = right.try_into_scalar::<f32>()?;
    println!("accuracy on 500 new questions: {:.1} %", 100.0 * accuracy);
    assert!(accuracy > 0.99);

    show_one_question(&model, &device)
}

fn show_one_question(model: &Recall, device: &Device) -> Result<(), Box<dyn Error>> {
    let question = Questions::draw(1, device);
    let weights = model.forward(&question).1.try_into_vec_as::<f32>()?;
    let letters = |names: Tensor<2, Int>| -> Result<Vec<char>, Box<dyn Error>> {
        let names = names.try_into_vec_as::<u8>()?;
        Ok(names.iter().map(|name| char::from(b'a' + name)).collect())
    };
    let (asked, names) = (letters(question.asked)?[0], letters(question.names)?);
    let numbers = question.numbers.try_into_vec_as::<u8>()?;
    let len = question.lens.try_into_scalar::<u8>()?;

    let pairs = names.iter().zip(&numbers);
    let heatmap = HeatmapGrid::single(weights.clone(), [1, MAX_PAIRS])?
        .with_axis_titles(format!("pairs, of which {len} count"), "question")
        .with_query_labels([format!("{asked}=?")])?
        .with_key_labels(pairs.map(|(name, number)| format!("{name}={number}")))?;
    print!("\n{}", heatmap.to_terminal(common::terminal_color()));

    let heaviest = (0..MAX_PAIRS).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
    assert_eq!(heaviest.map(|pair| names[pair]), Some(asked));
    assert!(
        weights[usize::from(len)..]
            .iter()
            .all(|&weight| weight == 0.0)
    );
    Ok(())
}
