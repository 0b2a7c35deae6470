//! The bilinear score: queries and keys of different feature dimensions, by matrix products only.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Exercises", 2. The answer is the bilinear
//! score `q^T M k` (Luong et al. 2015 call it "general"): a matrix takes queries to the feature dimension of keys, and
//! the score is their dot product. It is written out here, in a few lines; the library has it as `BilinearScore`.
//!
//! ```text
//! cargo run -p attention-examples --example bilinear_score [folder for the heatmap]
//! ```

use attention_core::position::Positions;
use attention_core::score::{BilinearScoreConfig, ScoreKernel};
use attention_core::{Attention, AttentionOutput, Mask, ScoringFunction};
use attention_plot::HeatmapGrid;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;
use std::error::Error;

mod common;
use common::{print_matrices, println, scalar, show_grid};

// ANCHOR: score
/// `a(q, k) = q^T M k / sqrt(key_size)`.
#[derive(Module, Debug)]
struct Bilinear {
    /// M, `[query_size, key_size]`.
    query: Linear,
}

// A dot product of projected queries: it runs in the dot-product kernel, in training too.
impl ScoringFunction for Bilinear {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.query.forward(queries)
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: None }
    }
}

fn bilinear(query_size: usize, key_size: usize, device: &Device) -> Attention<Bilinear> {
    let linear = LinearConfig::new(query_size, key_size).with_bias(false);
    let query = linear.init(device);
    Attention::new(Bilinear { query }, 0.0)
}
// ANCHOR_END: score

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(2);
    toy_example(&device)?;
    learn(&device)
}

/// D2L's toy example of additive attention: queries of feature dimension 20, keys of 2.
fn toy_example(device: &Device) -> Result<(), Box<dyn Error>> {
    let normal = Distribution::Normal(0.0, 1.0);
    let queries = Tensor::<3>::random([2, 1, 20], normal, device);
    let keys = Tensor::<3>::ones([2, 10, 2], device);
    let values = Tensor::<1, Int>::arange(0..40, device).float();
    let values = values.reshape([1, 10, 4]).repeat_dim(0, 2);
    let mask = Mask::valid_lens(Tensor::from_ints([2, 6], device));
    let context = bilinear(20, 2, device).forward(queries, keys, values, &mask);
    print_matrices("context:", &context)?;
    let mean = [[[2., 3., 4., 5.]], [[10., 11., 12., 13.]]];
    let difference = context - Tensor::<3>::from_floats(mean, device);
    assert!(scalar(difference.abs().max())? < 1e-5);
    Ok(())
}

const QUERY_SIZE: usize = 6;
const KEY_SIZE: usize = 3;
const KEYS: usize = 8;

/// Queries with the key that each should attend to, by a hidden matrix that the score is to learn.
struct Questions {
    /// `[batch, 1, QUERY_SIZE]`
    queries: Tensor<3>,
    /// `[batch, KEYS, KEY_SIZE]`
    keys: Tensor<3>,
    /// The key of the highest true score, `[batch, 1, 1]`.
    answers: Tensor<3, Int>,
}

impl Questions {
    fn draw(batch: usize, hidden: &Tensor<2>) -> Self {
        let device = hidden.device();
        let normal = Distribution::Normal(0.0, 1.0);
        let queries = Tensor::<3>::random([batch, 1, QUERY_SIZE], normal, &device);
        let keys = Tensor::<3>::random([batch, KEYS, KEY_SIZE], normal, &device);
        let sought = queries.clone().matmul(hidden.clone().unsqueeze::<3>());
        let answers = sought.matmul(keys.clone().transpose()).argmax(2);
        Self {
            queries,
            keys,
            answers,
        }
    }

    fn weights<S: ScoringFunction>(&self, attention: &Attention<S>) -> Tensor<3> {
        let (queries, keys) = (self.queries.clone(), self.keys.clone());
        let AttentionOutput { weights, .. } =
            attention.forward_with_weights(queries, keys.clone(), keys, Mask::none());
        weights
    }

    /// The share of queries whose largest weight is on the right key.
    fn accuracy(&self, attention: &Attention<Bilinear>) -> Result<f32, Box<dyn Error>> {
        let chosen = self.weights(attention).argmax(2);
        scalar(chosen.equal(self.answers.clone()).float().mean())
    }
}

/// Learns M from the right keys.
fn learn(device: &Device) -> Result<(), Box<dyn Error>> {
    let training = device.clone().autodiff();
    let normal = Distribution::Normal(0.0, 1.0);
    let hidden = Tensor::<2>::random([QUERY_SIZE, KEY_SIZE], normal, device);
    let questions = Questions::draw(500, &hidden);
    let mut attention = bilinear(QUERY_SIZE, KEY_SIZE, &training);
    let before = questions.accuracy(&attention.valid())?;

    let hidden_there = hidden.clone().to_device(&training);
    // ANCHOR: learn
    let mut adam = AdamConfig::new().init();
    for _ in 0..150 {
        let examples = Questions::draw(64, &hidden_there);
        let weights = examples.weights(&attention);
        let loss = -weights.gather(2, examples.answers).log().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &attention);
        attention = adam.step(0.05, attention, gradients);
    }
    // ANCHOR_END: learn
    let attention = attention.valid();
    let after = questions.accuracy(&attention)?;
    println!("\nlargest weight on the right one of {KEYS} keys:");
    println!("  before training  {:.0} %", 100.0 * before);
    println!("  after training   {:.0} %", 100.0 * after);
    assert!(after > 0.9);

    // M may be any multiple of the hidden matrix: the larger, the more of the weight is on one key.
    let learned = attention.score.query.weight.val();
    let norm = |matrix: &Tensor<2>| matrix.clone().powf_scalar(2.0).sum().sqrt();
    let product = (learned.clone() * hidden.clone()).sum();
    let cosine = scalar(product / norm(&learned) / norm(&hidden))?;
    println!("cosine of M and the hidden matrix: {cosine:.3}");
    assert!(cosine > 0.95);

    // ANCHOR: library
    // The library's score, with the same matrix and scale.
    let mut score = BilinearScoreConfig::new(QUERY_SIZE, KEY_SIZE)
        .with_scale(1.0 / (KEY_SIZE as f64).sqrt())
        .init(device);
    score.query = attention.score.query.clone();
    let weights = questions.weights(&Attention::new(score, 0.0));
    let difference = scalar((weights - questions.weights(&attention)).abs().max())?;
    assert!(difference < 1e-5);
    // ANCHOR_END: library

    let few = Questions::draw(6, &hidden);
    let answers = few.answers.clone().try_into_vec_as::<u8>()?;
    let heatmap = HeatmapGrid::new(
        few.weights(&attention).try_into_vec_as::<f32>()?,
        [1, 1, 6, KEYS],
    )?
    .with_axis_titles("keys", "queries, by right key")
    .with_query_labels(answers.iter().map(u8::to_string))?
    .with_key_labels((0..KEYS).map(|key| key.to_string()))?;
    show_grid("bilinear_score", &heatmap)
}
