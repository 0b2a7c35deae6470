//! Sum or product: when queries and keys have the same feature dimension, is summing them a better design of a score
//! than their dot product?
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Exercises", 3. Answered by measuring: the
//! variance of the scores as vectors grow, the weights and gradients after softmax, the learning curves, and the time.
//!
//! Saves the learning curves as SVG.
//!
//! ```text
//! cargo run -p attention-examples --example sum_or_product [folder for the pictures]
//! ```

use std::cmp::Ordering;
use std::error::Error;
use std::time::Instant;

use attention_core::position::Positions;
use attention_core::score::{AdditiveScoreConfig, DotProductScoreConfig, ScoreKernel};
use attention_core::{Attention, AttentionOutput, Mask, ScoringFunction};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{Curves, Series, Style, print, println, save_curves, scalar};

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

// ANCHOR: plain_sum
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
// ANCHOR_END: plain_sum

/// A sum alone is no score: `w . q` is the same for all keys, so the softmax does not depend on the query.
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
        Attention::new(PlainSum { value }, 0.0).forward_with_weights(q, k, v, Mask::none())
    };
    let plain = of(run(inputs()))?;
    let additive = AdditiveScoreConfig::new(size, size, size).init(device);
    let (q, k, v) = inputs();
    let additive = of(Attention::new(additive, 0.0).forward_with_weights(q, k, v, Mask::none()))?;
    println!("largest difference between the weights of two random queries:");
    println!("  w . (q + k)              {plain:.6}");
    println!("  w . tanh(W_q q + W_k k)  {additive:.6}");
    assert!(plain < 1e-6 && additive > 1e-4);
    Ok(())
}

/// The measurements of one score at one feature dimension.
#[derive(Clone, Copy)]
struct Statistics {
    variance: f32,
    /// The mean over queries of their largest weight; `1 / KEYS` is even, 1 is saturated.
    largest: f32,
    /// The root mean square of the gradient of the weights with respect to the scores; near 0, nothing is learned.
    gradient: f32,
}

impl Statistics {
    fn of<S: ScoringFunction>(
        score: S,
        size: usize,
        device: &Device,
    ) -> Result<Self, Box<dyn Error>> {
        let (batch, num_queries) = (8, 16);
        let inputs = [num_queries, KEYS].map(|len| normal([batch, 1, len, size], device));
        let [queries, keys] = inputs;
        let last = KEYS as i64;
        let queries =
            score.project_queries(queries, &Positions::consecutive(last - num_queries as i64));
        let keys = score.project_keys(keys, &Positions::consecutive(0));
        let scores = score.score(queries, keys, &Mask::none());
        // ANCHOR: variance
        let deviation = scores.clone() - scores.clone().mean_dim(3);
        let variance = scalar(deviation.powf_scalar(2.0).mean())?;

        let scores = scores.detach().require_grad();
        let weights = attention_core::masked_softmax(scores.clone(), &Mask::none());
        let largest = scalar(weights.clone().max_dim(3).mean())?;
        let output_gradients = normal(weights.dims(), device);
        let gradients = (weights * output_gradients).sum().backward();
        let gradient = scores.grad(&gradients).ok_or("scores have no gradient")?;
        // ANCHOR_END: variance
        Ok(Self {
            variance,
            largest,
            gradient: scalar(gradient.powf_scalar(2.0).mean().sqrt())?,
        })
    }
}

/// Rows of `[dot, scaled dot, additive]` for vectors of unit variance and growing feature dimension.
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

/// `(W_q q) . (W_k k) / sqrt(size)`: the parameters of the additive score, but for `w_v`.
#[derive(Module, Debug)]
struct ProjectedDot {
    query: Linear,
    key: Linear,
}

impl ScoringFunction for ProjectedDot {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.query.forward(queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.key.forward(keys)
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Dot { scale: None }
    }
}

const SIZE: usize = 8;
const HIDDENS: usize = 32;
const CHOICES: usize = 8;
const STEPS: usize = 200;

/// The losses of both scores at each step. They learn to attend to the key whose linear transform the query is.
struct Learned {
    dot: Vec<f32>,
    additive: Vec<f32>,
}

/// The last loss of each.
impl Learned {
    fn last(&self) -> [f32; 2] {
        [&self.dot, &self.additive].map(|losses| losses[losses.len() - 1])
    }
}

/// Learns with keys that are always some of the same 16, and with keys that are new in every step.
fn learning(device: &Device) -> Result<[Learned; 2], Box<dyn Error>> {
    let training = device.clone().autodiff();
    let transform = normal([1, SIZE, SIZE], &training) / (SIZE as f64).sqrt();
    let known = normal([16, SIZE], &training);
    let choose = || {
        let noise = Tensor::<2>::random([16, 16], Distribution::Default, &training);
        let chosen = noise.argsort(1).narrow(1, 0, CHOICES);
        let keys = known.clone().select(0, chosen.reshape([16 * CHOICES]));
        keys.reshape([16, CHOICES, SIZE])
    };
    let anew = || normal([16, CHOICES, SIZE], &training);
    let guessing = (CHOICES as f32).ln();
    println!("\nloss while learning which of {CHOICES} keys it is (guessing costs {guessing:.3}):");
    println!("           |     keys of a known 16    |         new keys");
    println!("      step |  dot product     additive |  dot product     additive");
    let tasks: [&dyn Fn() -> Tensor<3>; 2] = [&choose, &anew];
    let mut results = Vec::new();
    for keys in tasks {
        let linear = || {
            let config = LinearConfig::new(SIZE, HIDDENS).with_bias(false);
            config.init(&training)
        };
        let dot = ProjectedDot {
            query: linear(),
            key: linear(),
        };
        let additive = AdditiveScoreConfig::new(SIZE, SIZE, HIDDENS).init(&training);
        results.push(Learned {
            dot: learn(dot, keys, &transform)?,
            additive: learn(additive, keys, &transform)?,
        });
    }
    for at in 0..=5 {
        let step = at * STEPS / 5;
        print!("{step:10}");
        for learned in &results {
            let losses = (learned.dot[step], learned.additive[step]);
            print!(" | {:12.3} {:12.3}", losses.0, losses.1);
        }
        println!();
    }
    draw(&results, guessing)?;
    results.try_into().map_err(|_| "expected two tasks".into())
}

/// The losses as curves.
fn draw(results: &[Learned], guessing: f32) -> Result<(), Box<dyn Error>> {
    let mut series = Vec::new();
    for (keys, learned) in ["a known 16", "new keys"].into_iter().zip(results) {
        for (name, losses) in [
            ("dot product", &learned.dot),
            ("additive", &learned.additive),
        ] {
            let steps = (0..losses.len()).map(|step| step as f32);
            let name = format!("{name}, {keys}");
            series.push(Series::new(name, Style::Line, steps, losses.clone()));
        }
    }
    save_curves(
        "sum_or_product",
        &Curves {
            title: format!("Learning which of {CHOICES} keys it is"),
            axes: ["step", "loss"],
            series,
            reaching: vec![0.0, guessing],
        },
    )
}

// ANCHOR: learn
fn learn<S: ScoringFunction>(
    score: S,
    keys: &dyn Fn() -> Tensor<3>,
    transform: &Tensor<3>,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let right = Tensor::<2>::eye(CHOICES, &transform.device()).unsqueeze::<3>();
    let mut attention = Attention::new(score, 0.0);
    let mut adam = AdamConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..=STEPS {
        let keys = keys();
        // Query `i` is to attend to key `i`.
        let queries = keys.clone().matmul(transform.clone());
        let AttentionOutput { weights, .. } =
            attention.forward_with_weights(queries, keys.clone(), keys, Mask::none());
        let found = (weights * right.clone()).sum_dim(2);
        let loss = -found.clamp_min(1e-9).log().mean();
        losses.push(scalar(loss.clone())?);
        let gradients = GradientsParams::from_grads(loss.backward(), &attention);
        attention = adam.step(0.02, attention, gradients);
    }
    Ok(losses)
}
// ANCHOR_END: learn

/// The time of additive attention divided by the time of dot-product attention, without gradients.
fn cost(device: &Device) -> Result<f64, Box<dyn Error>> {
    let size = 64;
    let [queries, keys] = [64, 64].map(|len| normal([4, len, size], device));
    let time = |forward: &dyn Fn() -> Tensor<3>| -> Result<f64, Box<dyn Error>> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let started = Instant::now();
            // Reading an element waits for the device.
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

/// Prints the answer that follows from the measurements.
fn conclude(grown: &[[Statistics; 3]], [known, new]: &[Learned; 2], cost: f64) {
    let (small, large) = (&grown[0], &grown[grown.len() - 1]);
    let growth = |of: usize| large[of].variance / small[of].variance;
    let [dot, scaled, additive] = large.map(|at| at.largest);
    println!("\nfrom these measurements:");
    println!(
        "- from the smallest size to the largest the variance of scores grows {:.0}-fold for the dot product,\n  \
         {:.1}-fold with its scale and {:.1}-fold for the sum; the largest weight becomes {dot:.2}, {scaled:.2} and \
         {additive:.2}.",
        growth(0),
        growth(1),
        growth(2),
    );
    println!(
        "- at the largest size the gradient of the weights is {:.1} times as large with the scale as without.",
        large[1].gradient / large[0].gradient
    );
    let tasks = [
        ("keys that are always of the same few", known),
        ("new keys every time", new),
    ];
    let mut better = Vec::new();
    for (task, learned) in tasks {
        let [dot, additive] = learned.last();
        // Below this loss both have learned it, and the remaining difference is chance.
        let enough = 0.05 * (CHOICES as f32).ln();
        let order = additive.max(enough).total_cmp(&dot.max(enough));
        let who = match order {
            Ordering::Less => "the sum learns more",
            Ordering::Equal => "both learn it",
            Ordering::Greater => "the dot product learns more",
        };
        println!("- with {task}, {who}: loss {dot:.3} by dot product, {additive:.3} by sum.");
        better.push(order);
    }
    println!("- the sum takes {cost:.1} times as long as the dot product.");
    let verdict = match (cost > 1.0, better.contains(&Ordering::Less)) {
        (true, true) => {
            "dearer, but has tasks that it learns better: a choice, not a better design"
        }
        (true, false) => "no better: dearer, and it learns nothing that the dot product does not",
        (false, true) => "better here: cheaper, and with tasks that it learns better",
        (false, false) => "cheaper here, but it learns nothing that the dot product does not",
    };
    println!("So for vectors of one size the sum is {verdict}.");
    // D2L's reason for the scale.
    assert!(growth(0) > 20.0 && growth(1) < 3.0 && large[0].gradient < large[1].gradient);
}
