//! Attention before neural networks: Nadaraya-Watson regression, a weighted mean of the known values in which near
//! points count more.
//!
//! *Dive into Deep Learning*, section "Attention Pooling by Similarity" (chapter 11.2): queries are the places to
//! predict at, keys the places that were measured, values what was measured there. The width of the kernel is a
//! parameter like any other: in the end it is learned.
//!
//! ```text
//! cargo run -p attention-examples --example nadaraya_watson [folder for the heatmaps]
//! ```

use std::error::Error;

use attention_core::{Attention, AttentionOutput, Mask, ScoringFunction};
use attention_plot::HeatmapGrid;
use burn::module::{Module, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{save_grid, scalar};

const POINTS: usize = 40;

/// The curve that the data hides: `2 sin x + x`.
fn curve(x: Tensor<3>) -> Tensor<3> {
    x.clone().sin() * 2.0 + x
}

/// What was measured, and where to predict: on an even grid.
struct Data {
    /// `[1, POINTS, 1]`, in order.
    keys: Tensor<3>,
    /// The curve at the keys, with noise.
    values: Tensor<3>,
    queries: Tensor<3>,
    /// The curve at the queries.
    truth: Tensor<3>,
}

impl Data {
    fn draw(device: &Device) -> Self {
        let shape = [1, POINTS, 1];
        let keys = Tensor::<3>::random(shape, Distribution::Uniform(0.0, 5.0), device).sort(1);
        let noise = Tensor::random(shape, Distribution::Normal(0.0, 1.0), device);
        let grid = Tensor::<1, Int>::arange(0..POINTS as i64, device).float();
        let queries = grid.reshape(shape) * (5.0 / POINTS as f64);
        Self {
            values: curve(keys.clone()) + noise,
            truth: curve(queries.clone()),
            keys,
            queries,
        }
    }

    /// The root of the mean squared error of a prediction at the queries.
    fn error(&self, predicted: &Tensor<3>) -> Result<f32, Box<dyn Error>> {
        scalar(
            (predicted.clone() - self.truth.clone())
                .powf_scalar(2.0)
                .mean()
                .sqrt(),
        )
    }

    fn predict<S: ScoringFunction>(&self, score: S) -> AttentionOutput<3> {
        let (keys, values) = (self.keys.clone(), self.values.clone());
        let attention = Attention::new(score, 0.0);
        attention.forward_with_weights(self.queries.clone(), keys, values, &Mask::none())
    }
}

/// In place of a kernel of 0, whose logarithm is not a number to calculate with: `exp(ln(1e-30))` adds nothing either.
const NOTHING: f32 = 1e-30;

/// `ln K(u)`, of each entry.
type LogKernel = fn(Tensor<4>) -> Tensor<4>;

/// `a(q, k) = ln K((q - k) / width)`: softmax of the logarithm of a kernel is that kernel, divided by its sum over the
/// keys.
#[derive(Module, Debug)]
struct KernelScore {
    #[module(skip)]
    log_kernel: LogKernel,
    /// `1 / width`, `[1]`.
    sharpness: Param<Tensor<1>>,
}

impl KernelScore {
    fn new(log_kernel: LogKernel, width: f64, device: &Device) -> Self {
        Self {
            log_kernel,
            sharpness: Param::from_tensor(Tensor::full([1], 1.0 / width, device)),
        }
    }

    fn width(&self) -> Result<f32, Box<dyn Error>> {
        Ok(1.0 / scalar(self.sharpness.val())?)
    }
}

impl ScoringFunction for KernelScore {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let distance = queries - keys.swap_dims(2, 3);
        (self.log_kernel)(distance * self.sharpness.val().reshape([1, 1, 1, 1]))
    }
}

/// `exp(-u^2 / 2)`
fn gaussian(u: Tensor<4>) -> Tensor<4> {
    u.powf_scalar(2.0) / -2.0
}

/// 1 where `|u| < 1`
fn boxcar(u: Tensor<4>) -> Tensor<4> {
    u.abs().lower_elem(1.0).float().clamp_min(NOTHING).log()
}

/// `max(0, 1 - |u|)`; the book calls it Epanechikov's.
fn triangle(u: Tensor<4>) -> Tensor<4> {
    (-u.abs() + 1.0).clamp_min(NOTHING).log()
}

/// 1 everywhere: the mean of all values.
fn constant(u: Tensor<4>) -> Tensor<4> {
    u.zeros_like()
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(4);
    let data = Data::draw(&device);
    kernels(&data)?;
    widths(&data)?;
    learned_width(&data)
}

/// The book's four kernels, all of width 1.
fn kernels(data: &Data) -> Result<(), Box<dyn Error>> {
    let device = data.keys.device();
    let kernels: [(_, LogKernel); 4] = [
        ("gaussian", gaussian),
        ("boxcar", boxcar),
        ("constant", constant),
        ("triangle", triangle),
    ];
    let outputs = kernels.map(|(name, kernel)| {
        let output = data.predict(KernelScore::new(kernel, 1.0, &device));
        (name, output)
    });
    show("nadaraya_watson_kernels", data, &outputs)?;
    let [gaussian, _, constant, _] = &outputs;
    assert!(data.error(&gaussian.1.context)? < data.error(&constant.1.context)?);
    Ok(())
}

/// A narrow kernel follows the noise, a wide one forgets the curve.
fn widths(data: &Data) -> Result<(), Box<dyn Error>> {
    let device = data.keys.device();
    let outputs = [("0.1", 0.1), ("0.2", 0.2), ("0.5", 0.5), ("1", 1.0)].map(|(name, width)| {
        let output = data.predict(KernelScore::new(gaussian, width, &device));
        (name, output)
    });
    println!("\nGaussian kernels of several widths:");
    show("nadaraya_watson_widths", data, &outputs)
}

/// The width with which each point is best predicted from the others. With its own value in sight the best width would
/// be 0, so the mask hides it.
fn learned_width(data: &Data) -> Result<(), Box<dyn Error>> {
    let training = data.keys.device().autodiff();
    let others = Tensor::<2>::eye(POINTS, &training).equal_elem(0.0);
    let mask = Mask::keep(others.unsqueeze::<4>());
    let (keys, values) = (
        data.keys.clone().to_device(&training),
        data.values.clone().to_device(&training),
    );
    let mut attention = Attention::new(KernelScore::new(gaussian, 1.0, &training), 0.0);
    let mut adam = AdamConfig::new().init();
    println!("\nthe width, learned by gradient descent:");
    let mut errors = Vec::new();
    for step in 0..=60 {
        let predicted = attention.forward(keys.clone(), keys.clone(), values.clone(), &mask);
        let loss = (predicted - values.clone()).powf_scalar(2.0).mean();
        if step % 15 == 0 {
            let (width, error) = (attention.score.width()?, scalar(loss.clone())?.sqrt());
            println!("  step {step:2}: width {width:.3}, error on points left out {error:.3}");
            errors.push(error);
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &attention);
        attention = adam.step(0.1, attention, gradients);
    }
    assert!(errors[errors.len() - 1] < errors[0]);

    let score = attention.valid().score;
    let width = score.width()?;
    let (before, after) = (
        data.predict(KernelScore::new(gaussian, 1.0, &data.keys.device())),
        data.predict(score),
    );
    let after_name = format!("learned {width:.2}");
    let outputs = [("1", before), (after_name.as_str(), after)];
    show("nadaraya_watson_learned", data, &outputs)
}

/// Curves as numbers, weights as heatmaps.
fn show(
    name: &str,
    data: &Data,
    outputs: &[(&str, AttentionOutput<3>)],
) -> Result<(), Box<dyn Error>> {
    let numbers = |tensor: &Tensor<3>| tensor.clone().try_into_vec_as::<f32>();
    let (places, truth) = (numbers(&data.queries)?, numbers(&data.truth)?);
    let mut curves = Vec::new();
    let mut weights = Vec::new();
    print!("\n{:>8} {:>12}", "x", "2 sin x + x");
    for (name, output) in outputs {
        print!(" {name:>12}");
        curves.push(numbers(&output.context)?);
        weights.extend(numbers(&output.weights)?);
    }
    println!();
    for at in (0..POINTS).step_by(5) {
        print!("{:8.3} {:12.3}", places[at], truth[at]);
        curves
            .iter()
            .for_each(|curve| print!(" {:12.3}", curve[at]));
        println!();
    }
    print!("{:>21}", "error");
    for (_, output) in outputs {
        print!(" {:12.3}", data.error(&output.context)?);
    }
    println!();
    let heatmaps = HeatmapGrid::new(weights, [1, outputs.len(), POINTS, POINTS])?
        .with_titles(outputs.iter().map(|(name, _)| *name))?
        .with_axis_titles("measured at (sorted)", "predicted at");
    save_grid(name, &heatmaps)
}
