//! Inputs four times as long as in training: attention with a state, which gets the weights of the step before.
//!
//! The task is to copy a text of few letters, one in each step. The same letter stands at many positions, so the
//! content of a key does not tell which position is next. Plain additive attention has to learn positions from the
//! recurrent states of encoder and decoder, which does not generalise beyond the lengths of training.
//! Location-sensitive attention (Chorowski et al. 2015) and monotonic attention (Raffel et al. 2017) go on from the
//! position of the step before.
//!
//! Saves the share of letters copied right as a table, as text, and as curves over the length, and the attention
//! weights in a long text as heatmaps; the curves as SVG, the heatmaps as SVG and PNG.
//!
//! ```text
//! cargo run --release -p attention-examples --example long_inputs [folder for the pictures]
//! ```
//!
//! A debug build is slow: it trains for a few steps only, to show that everything runs.

use std::error::Error;
use std::fmt::Write;

use attention_core::stateful::{
    LocationAttentionConfig, MonotonicAttentionConfig, StatefulAttention,
};
use attention_core::{AdditiveAttentionConfig, Mask};
use attention_plot::HeatmapGrid;
use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{Curves, Series, Style, println};

const LETTERS: usize = 4; // a ..= d; one more id stands for the beginning
const HIDDENS: usize = 32;
const TRAINED: [usize; 5] = [4, 7, 10, 13, 16];
const TESTED: [usize; 5] = [8, 16, 32, 48, 64];
const STEPS: usize = if cfg!(debug_assertions) { 3 } else { 1000 };

/// An encoder, an attention and a decoder that writes one letter in each step.
#[derive(Module, Debug)]
struct Copyist<A: StatefulAttention> {
    letters: Embedding,
    encoder: Gru,
    decoder: Gru,
    attention: A,
    output: Linear,
}

impl<A: StatefulAttention> Copyist<A> {
    fn new(attention: A, device: &Device) -> Self {
        Self {
            letters: EmbeddingConfig::new(LETTERS + 1, HIDDENS).init(device),
            encoder: GruConfig::new(HIDDENS, HIDDENS, true).init(device),
            decoder: GruConfig::new(2 * HIDDENS, HIDDENS, true).init(device),
            attention,
            output: LinearConfig::new(2 * HIDDENS, LETTERS).init(device),
        }
    }

    /// Copies `text`, `[batch, length]`. The inputs of a step are the letters of the text with teacher forcing,
    /// otherwise the letters written before.
    fn copy(&self, text: &Tensor<2, Int>, inputs: Inputs) -> Copied {
        let [batch, length] = text.dims();
        let device = text.device();
        let values = self.letters.forward(text.clone());
        // The sum of the letter's embedding and of the encoder's state after it.
        let keys = self.encoder.forward(values.clone(), None) + values.clone();
        let memory = self.attention.prepare(keys, values, Mask::none());

        let mut state = self.attention.initial_state(&memory);
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

            written = match inputs {
                Inputs::TeacherForcing => text.clone().narrow(1, step, 1),
                Inputs::Greedy => letter.clone().argmax(2).squeeze_dim(2),
            };
            (hidden, context, state) = (query.squeeze_dim(1), output.context, next);
            logits.push(letter);
            weights.push(output.weights);
        }
        Copied {
            logits: Tensor::cat(logits, 1),
            weights: Tensor::cat(weights, 1),
        }
    }
}

/// The inputs of the decoder after the first.
enum Inputs {
    /// The letters of the text.
    TeacherForcing,
    /// The most likely letter of the step before.
    Greedy,
}

/// A copied text.
struct Copied {
    /// `[batch, length, LETTERS]`
    logits: Tensor<3>,
    /// The attention weights, `[batch, length, length]`.
    weights: Tensor<3>,
}

/// Texts in which no letter follows itself: each is 1, 2 or 3 after the one before, modulo 4.
fn texts(batch: usize, length: usize, device: &Device) -> Tensor<2, Int> {
    let steps = Distribution::Uniform(1.0, LETTERS as f64);
    let steps = Tensor::<2>::random([batch, length], steps, device).int();
    steps.cumsum(1).remainder_scalar(LETTERS as i64)
}

fn train<A: StatefulAttention>(
    attention: A,
    device: &Device,
) -> Result<Copyist<A>, Box<dyn Error>> {
    let mut model = Copyist::new(attention, device);
    let mut adam = AdamConfig::new()
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)))
        .init();
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    for step in 1..=STEPS {
        let length = TRAINED[step % TRAINED.len()];
        let text = texts(32, length, device);
        let Copied { logits, .. } = model.copy(&text, Inputs::TeacherForcing);
        let logits = logits.reshape([32 * length, LETTERS]);
        let loss = cross_entropy.forward(logits, text.reshape([32 * length]));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(0.005, model, gradients);
        if step % 250 == 0 {
            println!("  step {step}: loss {:.4}", loss.try_into_scalar::<f32>()?);
        }
    }
    Ok(model)
}

/// The results of one attention.
struct Trained {
    name: &'static str,
    /// The share of letters copied right, for each length of [`TESTED`].
    accuracies: Vec<f32>,
    /// The attention weights in one text of the greatest length.
    weights: Vec<f32>,
}

fn measure<A: StatefulAttention>(
    name: &'static str,
    attention: A,
    device: &Device,
) -> Result<Trained, Box<dyn Error>> {
    println!("{name}");
    let model = train(attention, &device.clone().autodiff())?.valid();
    let (mut accuracies, mut weights) = (Vec::new(), Vec::new());
    for length in TESTED {
        let text = texts(100, length, device);
        let copy = model.copy(&text, Inputs::Greedy);
        let right = copy.logits.argmax(2).squeeze_dim::<2>(2).equal(text);
        accuracies.push(right.float().mean().try_into_scalar::<f32>()?);
        weights = copy.weights.narrow(0, 0, 1).try_into_vec_as::<f32>()?;
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
    let monotonic = MonotonicAttentionConfig::new();
    let monotonic = monotonic.init_additive(HIDDENS, HIDDENS, HIDDENS, &training);
    let results = [
        measure("additive", additive.init(&training), &device)?,
        measure("location", location.init(&training), &device)?,
        measure("monotonic", monotonic, &device)?,
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
    common::save_curves("long_inputs_curves", &curves(results))?;

    let longest = TESTED[TESTED.len() - 1];
    let weights = results.iter().flat_map(|result| result.weights.clone());
    let heatmaps = HeatmapGrid::new(weights.collect(), [1, results.len(), longest, longest])?
        .with_titles(results.iter().map(|result| result.name))?
        .with_axis_titles("source", "output");
    common::save_grid("long_inputs", &heatmaps)
}

/// The table as curves.
fn curves(results: &[Trained]) -> Curves {
    let longest = TRAINED[TRAINED.len() - 1] as f32;
    let mut series = Vec::new();
    for (number, result) in results.iter().enumerate() {
        // The curves of two attentions that copy every letter coincide.
        let style = if number + 1 == results.len() {
            Style::Points
        } else {
            Style::Line
        };
        let lengths = TESTED.map(|length| length as f32);
        let percent = result.accuracies.iter().map(|accuracy| 100.0 * accuracy);
        series.push(Series::new(result.name, style, lengths, percent));
    }
    series.push(Series::new(
        "longest in training",
        Style::Line,
        [longest; 2],
        [0.0, 100.0],
    ));
    Curves {
        title: "Texts longer than any in training".to_string(),
        axes: ["letters of the text", "copied right, in %"],
        series,
        reaching: Vec::new(),
    }
}
