//! Attention that knows where it looked before reads inputs longer than any it was trained on.
//!
//! The task is to copy a text of few letters, one per step. What stands at one place stands at many others, so the
//! content of a key does not say whether it is its turn. Plain additive attention has to learn positions from the
//! recurrent states of encoder and decoder, which do not carry beyond the trained lengths; location-sensitive attention
//! (Chorowski et al. 2015) and monotonic attention (Raffel et al. 2017) go on from where the step before looked.
//!
//! Saves the share of letters copied right as a table, in text, and as curves over the length, and where each attention
//! looked in a long text as heatmaps; both pictures as SVG and PNG.
//!
//! ```text
//! cargo run --release -p attention-examples --example long_inputs [folder for the pictures]
//! ```
//!
//! A debug build is slow: it trains for a few steps only, to show that everything runs.

use std::error::Error;
use std::fmt::Write;

use attention_core::{
    AdditiveAttentionConfig, Alignment, LocationAttentionConfig, Mask, MonotonicAttentionConfig,
};
use attention_plot::{HeatmapGrid, LinePlot, SeriesStyle};
use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;

const LETTERS: usize = 4; // a ..= d; one more number stands for the beginning
const HIDDENS: usize = 32;
const TRAINED: [usize; 5] = [4, 7, 10, 13, 16];
const TESTED: [usize; 5] = [8, 16, 32, 48, 64];
const STEPS: usize = if cfg!(debug_assertions) { 3 } else { 1000 };

/// An encoder, an alignment and a decoder that writes one letter per step.
#[derive(Module, Debug)]
struct Copyist<A: Alignment> {
    letters: Embedding,
    encoder: Gru,
    decoder: Gru,
    attention: A,
    output: Linear,
}

impl<A: Alignment> Copyist<A> {
    fn new(attention: A, device: &Device) -> Self {
        Self {
            letters: EmbeddingConfig::new(LETTERS + 1, HIDDENS).init(device),
            encoder: GruConfig::new(HIDDENS, HIDDENS, true).init(device),
            decoder: GruConfig::new(2 * HIDDENS, HIDDENS, true).init(device),
            attention,
            output: LinearConfig::new(2 * HIDDENS, LETTERS).init(device),
        }
    }

    /// Copies `text`, `[batch, length]`: the logits of each letter, `[batch, length, LETTERS]`, and where the attention
    /// looked, `[batch, length, length]`. While training, each step is told the letters before; otherwise it goes by
    /// those it has written itself.
    fn copy(&self, text: &Tensor<2, Int>, told: bool) -> (Tensor<3>, Tensor<3>) {
        let [batch, length] = text.dims();
        let device = text.device();
        let values = self.letters.forward(text.clone());
        // The letter, and what the encoder has seen up to it.
        let keys = self.encoder.forward(values.clone(), None) + values.clone();
        let memory = self.attention.prepare(keys, values, Mask::none());

        let mut state = self.attention.start(&memory);
        let mut hidden = Tensor::zeros([batch, HIDDENS], &device);
        let mut context = Tensor::zeros([batch, 1, HIDDENS], &device);
        let mut written = Tensor::full([batch, 1], LETTERS as i64, &device);
        let (mut logits, mut weights) = (Vec::new(), Vec::new());
        for step in 0..length {
            let input = Tensor::cat(vec![self.letters.forward(written), context], 2);
            let query = self.decoder.forward(input, Some(hidden));
            let (output, next) = (self.attention).step_with_weights(query.clone(), &memory, state);
            let letter = Tensor::cat(vec![query.clone(), output.context.clone()], 2);
            let letter = self.output.forward(letter);

            written = match told {
                true => text.clone().narrow(1, step, 1),
                false => letter.clone().argmax(2).squeeze_dim(2),
            };
            (hidden, context, state) = (query.squeeze_dim(1), output.context, next);
            logits.push(letter);
            weights.push(output.weights);
        }
        (Tensor::cat(logits, 1), Tensor::cat(weights, 1))
    }
}

/// Texts in which no letter follows itself: each is 1, 2 or 3 after the one before, modulo 4.
fn texts(batch: usize, length: usize, device: &Device) -> Tensor<2, Int> {
    let steps = Distribution::Uniform(1.0, LETTERS as f64);
    let steps = Tensor::<2>::random([batch, length], steps, device).int();
    steps.cumsum(1).remainder_scalar(LETTERS as i64)
}

fn train<A: Alignment>(attention: A, device: &Device) -> Result<Copyist<A>, Box<dyn Error>> {
    let mut model = Copyist::new(attention, device);
    let mut adam = AdamConfig::new()
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)))
        .init();
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    for step in 1..=STEPS {
        let length = TRAINED[step % TRAINED.len()];
        let text = texts(32, length, device);
        let (logits, _) = model.copy(&text, true);
        let rows = logits.reshape([32 * length, LETTERS]);
        let loss = cross_entropy.forward(rows, text.reshape([32 * length]));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.005, model, gradients);
        if step % 250 == 0 {
            println!("  step {step}: loss {:.4}", loss.try_into_scalar::<f32>()?);
        }
    }
    Ok(model)
}

/// What became of one attention.
struct Trained {
    name: &'static str,
    /// The share of letters copied right, for each length of [`TESTED`].
    accuracies: Vec<f32>,
    /// Where it looked in one text of the greatest length.
    weights: Vec<f32>,
}

fn measure<A: Alignment>(
    name: &'static str,
    attention: A,
    device: &Device,
) -> Result<Trained, Box<dyn Error>> {
    println!("{name}");
    let model = train(attention, &device.clone().autodiff())?.valid();
    let (mut accuracies, mut weights) = (Vec::new(), Vec::new());
    for length in TESTED {
        let text = texts(100, length, device);
        let (logits, looked) = model.copy(&text, false);
        let right = logits.argmax(2).squeeze_dim::<2>(2).equal(text);
        accuracies.push(right.float().mean().try_into_scalar::<f32>()?);
        weights = looked.narrow(0, 0, 1).try_into_vec_as::<f32>()?;
    }
    Ok(Trained {
        name,
        accuracies,
        weights,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(1);
    let training = device.clone().autodiff();

    let additive = AdditiveAttentionConfig::new(HIDDENS, HIDDENS, HIDDENS);
    let location = LocationAttentionConfig::new(HIDDENS, HIDDENS, HIDDENS).with_kernel_size(5);
    let monotonic = MonotonicAttentionConfig::new(HIDDENS, HIDDENS, HIDDENS);
    let results = [
        measure("additive", additive.init(&training), &device)?,
        measure("location", location.init(&training), &device)?,
        measure("monotonic", monotonic.init(&training), &device)?,
    ];
    show(&results)?;
    if cfg!(debug_assertions) {
        println!("a debug build: trained for {STEPS} steps only");
        return Ok(());
    }
    // At four times the greatest length in training.
    let [additive, location, monotonic] = results.map(|result| result.accuracies[TESTED.len() - 1]);
    assert!(additive < 0.8 && location > 0.9 && monotonic > 0.9);
    Ok(())
}

fn show(results: &[Trained]) -> Result<(), Box<dyn Error>> {
    let longest_trained = TRAINED[TRAINED.len() - 1];
    println!("\nletters copied right, in %; trained on up to {longest_trained} letters");
    let mut table = format!("{:<10}", "length");
    for length in TESTED {
        write!(table, "\t{length:>5}")?;
    }
    for result in results {
        write!(table, "\n{:<10}", result.name)?;
        for accuracy in &result.accuracies {
            write!(table, "\t{:5.1}", 100.0 * accuracy)?;
        }
    }
    println!("{table}");
    let file = common::folder()?.join("long_inputs.tsv");
    std::fs::write(&file, table + "\n")?;
    println!("saved {}", file.display());
    common::save_curves("long_inputs_curves", &curves(results)?)?;

    let longest = TESTED[TESTED.len() - 1];
    let weights = results.iter().flat_map(|result| result.weights.clone());
    let heatmaps = HeatmapGrid::new(weights.collect(), [1, results.len(), longest, longest])?
        .with_titles(results.iter().map(|result| result.name))?
        .with_axis_titles("read", "written");
    common::save_grid("long_inputs", &heatmaps)
}

/// The table as curves.
fn curves(results: &[Trained]) -> Result<LinePlot, Box<dyn Error>> {
    let mut curves = LinePlot::new()
        .with_title("Texts longer than any in training")
        .with_axis_titles("letters of the text", "copied right, in %")
        .with_vertical_line("longest in training", TRAINED[TRAINED.len() - 1] as f32)?
        .with_y_reaching(0.0)?;
    for (number, result) in results.iter().enumerate() {
        // Two that copy every letter lie on each other.
        let style = match number + 1 == results.len() {
            true => SeriesStyle::Dashes,
            false => SeriesStyle::LineAndPoints,
        };
        let lengths = TESTED.map(|length| length as f32);
        let percent = result.accuracies.iter().map(|accuracy| 100.0 * accuracy);
        curves = curves.with_series(result.name, style, lengths, percent)?;
    }
    Ok(curves)
}
