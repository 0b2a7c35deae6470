//! Exercise 3: when queries and keys have the same size, is summing them a better design than their dot product?
//!
//! *Dive into Deep Learning*, "Attention Scoring Functions", section "Exercises". Answered by measuring: what scores
//! look like as vectors grow, what softmax and gradients make of them, how fast both learn, and what both cost.
//!
//! ```text
//! cargo run -p attention-examples --example exercise_3
//! ```

use std::error::Error;
use std::time::Instant;

use attention_core::{
    AdditiveScoreConfig, Attention, AttentionOutput, DotFamily, DotProductScoreConfig, Mask,
    ScoringFunction,
};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::scalar;

const KEYS: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(7);
    plain_sum(&device)?;
    let grown = statistics(&device)?;
    let learned = learning(&device)?;
    let cost = cost(&device)?;
    conclude(&grown, &learned, cost);
    Ok(())
}

fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// `w . (q + k)`: a sum and nothing else.
#[derive(Module, Debug)]
struct PlainSum {
    value: Linear,
}

impl ScoringFunction for PlainSum {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        self.value.forward(queries) + self.value.forward(keys).swap_dims(2, 3)
    }
}

/// A sum alone cannot attend: `w . q` is the same for all keys, so softmax drops it, and the query with it.
fn plain_sum(device: &Device) -> Result<(), Box<dyn Error>> {
    let size = 16;
    let value = LinearConfig::new(size, 1).with_bias(false).init(device);
    let (queries, keys) = (
        normal([1, 2, size], device),
        normal([1, KEYS, size], device),
    );
    let difference = |weights: Tensor<3>| {
        let [first, second] = [0, 1].map(|query| weights.clone().narrow(1, query, 1));
        scalar((first - second).abs().max())
    };
    let of = |weights: AttentionOutput<3>| difference(weights.weights);
    let inputs = || (queries.clone(), keys.clone(), keys.clone());
    let run = |(q, k, v)| {
        Attention::new(PlainSum { value }, 0.0).forward_with_weights(q, k, v, &Mask::none())
    };
    let plain = of(run(inputs()))?;
    let additive = AdditiveScoreConfig::new(size, size, size).init(device);
    let (q, k, v) = inputs();
    let additive = of(Attention::new(additive, 0.0).forward_with_weights(q, k, v, &Mask::none()))?;
    println!("largest difference between the weights of two random queries:");
    println!("  w . (q + k)              {plain:.6}");
    println!("  w . tanh(W_q q + W_k k)  {additive:.6}");
    assert!(plain < 1e-6 && additive > 1e-4);
    Ok(())
}

/// What is measured for one score and one size.
#[derive(Clone, Copy)]
struct Statistics {
    variance: f32,
    /// The mean over queries of their largest weight; `1 / KEYS` is even, 1 is saturated.
    largest: f32,
    /// The root mean square of the gradient of the weights with respect to the scores: what is left to learn from.
    gradient: f32,
}

impl Statistics {
    fn of<S: ScoringFunction>(
        score: S,
        size: usize,
        device: &Device,
    ) -> Result<Self, Box<dyn Error>> {
        let (batch, queries) = (8, 16);
        let inputs = [queries, KEYS].map(|rows| normal([batch, 1, rows, size], device));
        let [queries, keys] = inputs;
        let (queries, keys) = (score.project_queries(queries), score.project_keys(keys));
        let scores = score.score(queries, keys, &Mask::none());
        let deviation = scores.clone() - scores.clone().mean_dim(3);
        let variance = scalar(deviation.powf_scalar(2.0).mean())?;

        let scores = scores.detach().require_grad();
        let weights = attention_core::masked_softmax(scores.clone(), &Mask::none());
        let largest = scalar(weights.clone().max_dim(3).mean())?;
        let received = normal(weights.dims(), device);
        let gradients = (weights * received).sum().backward();
        let gradient = scores.grad(&gradients).ok_or("scores have no gradient")?;
        Ok(Self {
            variance,
            largest,
            gradient: scalar(gradient.powf_scalar(2.0).mean().sqrt())?,
        })
    }
}

/// Rows of `[dot, scaled dot, additive]` for growing vectors of unit variance.
fn statistics(device: &Device) -> Result<Vec<[Statistics; 3]>, Box<dyn Error>> {
    let training = device.clone().autodiff();
    println!(
        "\n           |        dot product        |    scaled dot product     |         additive"
    );
    let head = "variance largest gradient";
    println!("      size | {head} | {head} | {head}");
    let mut rows = Vec::new();
    for size in [4, 16, 64, 256] {
        let plain = DotProductScoreConfig::new().with_scale(Some(1.0)).init();
        let scaled = DotProductScoreConfig::new().init();
        let additive = AdditiveScoreConfig::new(size, size, size).init(&training);
        let row = [
            Statistics::of(plain, size, &training)?,
            Statistics::of(scaled, size, &training)?,
            Statistics::of(additive, size, &training)?,
        ];
        print!("{size:10}");
        for at in &row {
            print!(
                " | {:8.3} {:7.3} {:8.5}",
                at.variance, at.largest, at.gradient
            );
        }
        println!();
        rows.push(row);
    }
    println!(
        "(largest: the mean largest weight, evenly spread {:.3}; gradient: of weights by scores)",
        1.0 / KEYS as f32
    );
    Ok(rows)
}

/// `(W_q q) . (W_k k) / sqrt(size)`: with as much to learn as the additive score, but for `w_v`.
#[derive(Module, Debug)]
struct ProjectedDot {
    query: Linear,
    key: Linear,
}

impl DotFamily for ProjectedDot {
    fn map_queries(&self, queries: Tensor<4>) -> Tensor<4> {
        self.query.forward(queries)
    }

    fn map_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        self.key.forward(keys)
    }

    fn scale(&self, size: usize) -> f64 {
        1.0 / (size as f64).sqrt()
    }
}

const SIZE: usize = 8;
const STEPS: usize = 200;

/// The losses of both while they learn to find the key that a query is a turned copy of.
struct Learned {
    dot: Vec<f32>,
    additive: Vec<f32>,
}

fn learning(device: &Device) -> Result<Learned, Box<dyn Error>> {
    let training = device.clone().autodiff();
    let turn = normal([1, SIZE, SIZE], &training) / (SIZE as f64).sqrt();
    let linear = || {
        LinearConfig::new(SIZE, SIZE)
            .with_bias(false)
            .init(&training)
    };
    let dot = ProjectedDot {
        query: linear(),
        key: linear(),
    };
    let learned = Learned {
        dot: learn(dot, &turn)?,
        additive: learn(
            AdditiveScoreConfig::new(SIZE, SIZE, SIZE).init(&training),
            &turn,
        )?,
    };
    println!(
        "\nloss while learning (guessing costs {:.3}):",
        (KEYS as f32).ln()
    );
    println!("      step  dot product     additive");
    for (at, (dot, additive)) in learned.dot.iter().zip(&learned.additive).enumerate() {
        println!("{:10} {dot:12.3} {additive:12.3}", at * STEPS / 5);
    }
    Ok(learned)
}

fn learn<S: ScoringFunction>(score: S, turn: &Tensor<3>) -> Result<Vec<f32>, Box<dyn Error>> {
    let device = turn.device();
    let mut attention = Attention::new(score, 0.0);
    let mut adam = AdamConfig::new().init();
    let mut losses = Vec::new();
    for step in 0..=STEPS {
        let keys = normal([16, KEYS, SIZE], &device);
        // Query `i` looks for key `i`.
        let queries = keys.clone().matmul(turn.clone());
        let AttentionOutput { weights, .. } =
            attention.forward_with_weights(queries, keys.clone(), keys, &Mask::none());
        let found = weights * Tensor::<2>::eye(KEYS, &device).unsqueeze::<3>();
        let loss = -found.sum_dim(2).clamp_min(1e-9).log().mean();
        if step % (STEPS / 5) == 0 {
            losses.push(scalar(loss.clone())?);
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &attention);
        attention = adam.step(0.01, attention, gradients);
    }
    Ok(losses)
}

/// How many times longer additive attention takes, without gradients.
fn cost(device: &Device) -> Result<f64, Box<dyn Error>> {
    let size = 64;
    let [queries, keys] = [64, 64].map(|rows| normal([4, rows, size], device));
    let time = |forward: &dyn Fn() -> Tensor<3>| -> Result<f64, Box<dyn Error>> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let started = Instant::now();
            // Reading a number waits for the device.
            scalar(forward().sum())?;
            best = best.min(started.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let dot = Attention::new(DotProductScoreConfig::new().init(), 0.0);
    let additive = AdditiveScoreConfig::new(size, size, size).init(device);
    let additive = Attention::new(additive, 0.0);
    let none = Mask::none();
    let dot = time(&|| dot.forward(queries.clone(), keys.clone(), keys.clone(), &none))?;
    let additive = time(&|| additive.forward(queries.clone(), keys.clone(), keys.clone(), &none))?;
    println!("\n4 x 64 queries, 64 keys, size 64, the best of 5:");
    println!("  dot product  {:8.3} ms", 1e3 * dot);
    println!("  additive     {:8.3} ms", 1e3 * additive);
    Ok(additive / dot)
}

/// Says what the numbers say.
fn conclude(grown: &[[Statistics; 3]], learned: &Learned, cost: f64) {
    let (small, large) = (&grown[0], &grown[grown.len() - 1]);
    let growth = |of: usize| large[of].variance / small[of].variance;
    println!("\nfrom these numbers:");
    println!(
        "- from the smallest to the largest size the variance of scores grows {:.0}-fold for the dot product,\n  \
         {:.1}-fold with its scale, {:.1}-fold for the sum; the largest weight becomes {:.2}, {:.2} and {:.2}.",
        growth(0),
        growth(1),
        growth(2),
        large[0].largest,
        large[1].largest,
        large[2].largest,
    );
    println!(
        "- the gradient that reaches the scores of the largest size is {:.1} times as large with the scale as without.",
        large[1].gradient / large[0].gradient
    );
    let [dot, additive] = [&learned.dot, &learned.additive].map(|losses| losses[losses.len() - 1]);
    let better = match dot < additive {
        true => "the dot product has learned more",
        false => "the sum has learned more",
    };
    println!(
        "- with matrices of one size to learn, after {STEPS} steps {better}: loss {dot:.3} and {additive:.3}."
    );
    println!(
        "- the sum takes {cost:.1} times as long: a tanh for every pair and hidden unit, not a matrix product."
    );
    let verdict = match (cost > 1.0, dot < additive) {
        (true, true) => {
            "no better: it costs more and learned less here; scaling is what the dot product needs"
        }
        (true, false) => "dearer, but it learned more here: worth it where time is not what counts",
        (false, true) => "cheaper here, but it learned less",
        (false, false) => "better here, in cost and in loss",
    };
    println!("So for vectors of one size the sum is {verdict}.");
    // The book's claim, which scaling answers.
    assert!(growth(0) > 20.0 && growth(1) < 3.0 && large[0].gradient < large[1].gradient);
}
