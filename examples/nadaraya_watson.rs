//! Attention before neural networks: Nadaraya-Watson regression, a weighted mean of the measured values in which near
//! points count more.
//!
//! *Dive into Deep Learning* (D2L), section "Attention Pooling by Similarity": queries are the points to predict at,
//! keys the points of measurement, values the measured values. The score is a kernel of the distance between query and
//! key. The width of a Gaussian kernel is a parameter like any other: in the end it is learned.
//!
//! Saves the predictions of all kernels, of several widths and of the learned width as curves beside the measured
//! values and the true curve, and the weights of each as heatmaps, all as SVG and PNG.
//!
//! ```text
//! cargo run -p attention-examples --example nadaraya_watson [folder for the pictures]
//! ```

use std::error::Error;

use attention_core::score::{
    GaussianScore, GaussianScoreConfig, Kernel, KernelScore, KernelScoreConfig,
};
use attention_core::{Attention, AttentionOutput, Mask, Normalizer, ScoringFunction};
use attention_plot::HeatmapGrid;
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{Curves, Series, Style, print, println, save_curves, save_grid, scalar};

const POINTS: usize = 40;
const WIDTHS: [f64; 4] = [0.1, 0.2, 0.5, 1.0];

/// The true curve: `2 sin x + x`.
fn curve(x: Tensor<3>) -> Tensor<3> {
    x.clone().sin() * 2.0 + x
}

/// Measurements, and the points to predict at; all of them `[1, POINTS, 1]`.
struct Data {
    /// The points of measurement, in order.
    keys: Tensor<3>,
    /// The curve at the keys, with noise.
    values: Tensor<3>,
    /// The points to predict at, an even grid.
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

    // ANCHOR: predict
    fn predict<S: ScoringFunction>(&self, attention: &Attention<S>) -> AttentionOutput<3> {
        let (keys, values) = (self.keys.clone(), self.values.clone());
        attention.forward_with_weights(self.queries.clone(), keys, values, Mask::none())
    }
    // ANCHOR_END: predict
}

// ANCHOR: attention
/// Attention whose weights are the kernel of the distance, divided by its sum over all keys.
fn sum_normalized(kernel: Kernel, width: f64) -> Attention<KernelScore> {
    let score = KernelScoreConfig::new(kernel).with_width(width).init();
    Attention::new(score, 0.0).with_normalizer(Normalizer::SumNormalized)
}

/// The same weights for the Gaussian kernel, `exp(-distance^2 / (2 width^2))`: the softmax of its logarithm.
fn softmax(config: &GaussianScoreConfig, device: &Device) -> Attention<GaussianScore> {
    Attention::new(config.init(device), 0.0)
}
// ANCHOR_END: attention

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(4);
    let data = Data::draw(&device);
    kernels(&data)?;
    widths(&data)?;
    learned_width(&data)
}

/// D2L's four kernels, and Epanechnikov's own.
fn kernels(data: &Data) -> Result<(), Box<dyn Error>> {
    let outputs = [
        ("gaussian", Kernel::Gaussian),
        ("boxcar", Kernel::Box),
        ("constant", Kernel::Constant),
        ("triangular", Kernel::Triangular), // D2L calls it "epanechikov"
        ("epanechnikov", Kernel::Epanechnikov), // a parabola
    ]
    .map(|(name, kernel)| (name, data.predict(&sum_normalized(kernel, 1.0))));
    println!("kernels of width 1:");
    show("nadaraya_watson_kernels", data, &outputs)?;

    // A constant kernel gives the mean of all values; kernels of the distance have a lower error.
    let [gaussian, boxcar, constant, triangular, epanechnikov] = outputs.map(|(_, output)| output);
    let mean = data.values.clone().mean_dim(1);
    assert!(scalar((constant.context.clone() - mean).abs().max())? < 1e-5);
    let error_of_mean = data.error(&constant.context)?;
    for nearby in [gaussian, boxcar, triangular, epanechnikov] {
        assert!(data.error(&nearby.context)? < error_of_mean);
    }
    Ok(())
}

/// A narrow kernel follows the noise, a wide one smooths the curve away.
fn widths(data: &Data) -> Result<(), Box<dyn Error>> {
    let device = data.keys.device();
    let mut outputs = Vec::new();
    let mut difference = 0_f32;
    for width in WIDTHS {
        let output = data.predict(&sum_normalized(Kernel::Gaussian, width));
        let config = GaussianScoreConfig::new().with_width(width);
        let other = data.predict(&softmax(&config, &device));
        let apart = (output.weights.clone() - other.weights).abs().max();
        difference = difference.max(scalar(apart)?);
        outputs.push((format!("width {width}"), output));
    }
    println!("\nGaussian kernels of several widths:");
    show("nadaraya_watson_widths", data, &outputs)?;
    println!("largest difference between their weights and those by softmax: {difference:.0e}");
    // `GaussianScore` computes distances from dot products; the narrower the kernel, the larger their rounding error.
    assert!(difference < 1e-3);
    Ok(())
}

/// Learns the width with which each point is best predicted from the others.
fn learned_width(data: &Data) -> Result<(), Box<dyn Error>> {
    let training = data.keys.device().autodiff();
    let [keys, values] = [&data.keys, &data.values].map(|at| at.clone().to_device(&training));
    // ANCHOR: others
    // Attending to its own value, a point would be predicted best with a width of 0: each point masks itself.
    let others = Mask::keep(Tensor::<2>::eye(POINTS, &training).equal_elem(0.0));
    let loss = |attention: &Attention<GaussianScore>| {
        let predicted = attention.forward(keys.clone(), keys.clone(), values.clone(), &others);
        (predicted - values.clone()).powf_scalar(2.0).mean()
    };
    // ANCHOR_END: others
    let error = |attention: &_| scalar(loss(attention).sqrt());

    println!("\nerror on each point, predicted from the others:");
    let mut errors = Vec::new();
    for width in WIDTHS {
        let config = GaussianScoreConfig::new().with_width(width);
        let error = error(&softmax(&config, &training))?;
        println!("  width {width:.3}  {error:.3}");
        errors.push(error);
    }
    println!("and while the width is learned by gradient descent, from 1:");
    // ANCHOR: learned
    let config = GaussianScoreConfig::new().with_learned(true);
    let mut attention = softmax(&config, &training);
    let mut adam = AdamConfig::new().init();
    for step in 1..=100 {
        let gradients = GradientsParams::from_grads(loss(&attention).backward(), &attention);
        attention = adam.step(0.3, attention, gradients);
        if step % 25 == 0 {
            let (width, error) = (width(&attention)?, error(&attention)?);
            println!("  width {width:.3}  {error:.3}  (step {step:3})");
        }
    }
    // ANCHOR_END: learned

    // The error is lower than at first, and about as low as for the best width above.
    let learned = error(&attention)?;
    let first = errors[WIDTHS.len() - 1];
    let best = errors.into_iter().fold(first, f32::min);
    assert!(learned < first && learned < 1.05 * best);

    let attention = attention.valid();
    let before = data.predict(&sum_normalized(Kernel::Gaussian, 1.0));
    let learned = format!("learned {:.2}", width(&attention)?);
    let outputs = [
        ("width 1", before),
        (learned.as_str(), data.predict(&attention)),
    ];
    show("nadaraya_watson_learned", data, &outputs)
}

fn width(attention: &Attention<GaussianScore>) -> Result<f32, Box<dyn Error>> {
    let inverse = attention.score.inverse_width.as_ref();
    Ok(1.0 / scalar(inverse.ok_or("the width is fixed")?.val().abs())?)
}

/// Prints the predictions, and saves them as curves and the weights as heatmaps.
fn show(
    name: &str,
    data: &Data,
    outputs: &[(impl AsRef<str>, AttentionOutput<3>)],
) -> Result<(), Box<dyn Error>> {
    let elements = |tensor: &Tensor<3>| tensor.clone().try_into_vec_as::<f32>();
    let (points, truth) = (elements(&data.queries)?, elements(&data.truth)?);
    let mut curves = Vec::new();
    let mut weights = Vec::new();
    print!("\n{:>8} {:>12}", "x", "2 sin x + x");
    for (name, output) in outputs {
        print!(" {:>12}", name.as_ref());
        curves.push(elements(&output.context)?);
        weights.extend(elements(&output.weights)?);
    }
    println!();
    for at in (0..POINTS).step_by(5) {
        print!("{:8.3} {:12.3}", points[at], truth[at]);
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
    let measured = (elements(&data.keys)?, elements(&data.values)?);
    let mut series = vec![
        Series::new("measured", Style::Points, measured.0, measured.1),
        Series::new("2 sin x + x", Style::Line, points.clone(), truth),
    ];
    for ((name, _), curve) in outputs.iter().zip(curves) {
        series.push(Series::new(
            name.as_ref(),
            Style::Line,
            points.clone(),
            curve,
        ));
    }
    let plot = Curves {
        title: String::new(),
        axes: ["x", "y"],
        series,
        reaching: Vec::new(),
    };
    save_curves(&format!("{name}_curves"), &plot)?;
    let heatmaps = HeatmapGrid::new(weights, [1, outputs.len(), POINTS, POINTS])?
        .with_titles(outputs.iter().map(|(name, _)| name.as_ref()))?
        .with_axis_titles("measured at (sorted)", "predicted at");
    save_grid(name, &heatmaps)
}
