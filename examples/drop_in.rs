//! Burn's Transformer with one import changed.
//!
//! The same file, [`drop_in/model.rs`](drop_in/model.rs), is compiled twice: with `burn::nn::transformer`, and with
//! `attention_transformers::burn_nn` in its place. Both models begin with the same parameters and see the same
//! texts, so that their losses are the same to rounding; time and memory are not. Saves the losses over the time as
//! SVG.
//!
//! ```text
//! cargo run --release -p attention-examples --example drop_in [folder for the pictures]
//! ```
//!
//! A debug build is slow: it trains for a few steps of short texts only, to show that everything runs.

use std::error::Error;
use std::time::Instant;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;
use peak_alloc::PeakAlloc;

mod common;
use common::{Curves, Series, Style, println};

// ANCHOR: imports
mod burns {
    use burn::nn::transformer;

    include!("drop_in/model.rs");
}

mod ours {
    use attention_transformers::burn_nn as transformer;

    include!("drop_in/model.rs");
}
// ANCHOR_END: imports

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const LAYERS: usize = 2;
const HEADS: usize = 4;
const SIZE: usize = 128;
const BATCH: usize = 4;
/// The number of characters of a text.
const CONTEXT: usize = if cfg!(debug_assertions) { 32 } else { 512 };
const STEPS: usize = if cfg!(debug_assertions) { 3 } else { 100 };
const LEARNING_RATE: f64 = 1e-3;

/// A model of the character that follows each.
trait LanguageModel: Module {
    /// Logits `[batch, characters, alphabet]` of texts `[batch, characters]`.
    fn logits(&self, text: Tensor<2, Int>) -> Tensor<3>;
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = concat!(
        include_str!("drop_in.rs"),
        include_str!("language_model.rs"),
        include_str!("long_inputs.rs")
    );
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let index = |character| alphabet.binary_search(&character).unwrap_or(0) as i64;
    let text: Vec<i64> = text.chars().map(index).collect();

    let device = Device::default().autodiff();
    device.seed(7);
    // ANCHOR: records
    let theirs = burns::Model::new(alphabet.len(), &device);
    // A record of Burn's layers is one of ours.
    let ours = ours::Model::new(alphabet.len(), &device).load_record(theirs.clone().into_record());
    // ANCHOR_END: records
    println!(
        "{} parameters, {STEPS} steps of {BATCH} x {CONTEXT} characters\n",
        theirs.num_params()
    );

    // The first step of a process is a slow one, whoever makes it.
    train(theirs.clone(), 1, &text, alphabet.len(), &device)?;
    train(ours.clone(), 1, &text, alphabet.len(), &device)?;
    let theirs = train(theirs, STEPS, &text, alphabet.len(), &device)?;
    let ours = train(ours, STEPS, &text, alphabet.len(), &device)?;
    println!(
        "{:22}{:>10}{:>14}{:>12}{:>12}",
        "", "seconds", "ms for a step", "MiB", "last loss"
    );
    for (name, run) in [
        ("burn::nn::transformer", &theirs),
        ("one import changed", &ours),
    ] {
        let seconds = run.seconds();
        let milliseconds = 1000.0 * seconds / STEPS as f32;
        println!(
            "{name:22}{seconds:10.1}{milliseconds:14.0}{:12.0}{:12.3}",
            run.mebibytes,
            run.losses[STEPS - 1]
        );
    }
    println!(
        "\n{:.1} times as fast, with {:.2} of the memory",
        theirs.seconds() / ours.seconds(),
        ours.mebibytes / theirs.mebibytes
    );
    for (step, (theirs, ours)) in theirs.losses.iter().zip(&ours.losses).enumerate() {
        // Rounding grows from step to step.
        let difference = (theirs - ours).abs();
        assert!(difference < 0.05, "step {step}: losses {theirs} and {ours}");
    }
    let curves = Curves {
        title: "One import changed".to_string(),
        axes: ["seconds", "loss"],
        series: vec![
            Series::new("burn::nn", Style::Line, theirs.times, theirs.losses),
            Series::new("drop_in", Style::Line, ours.times, ours.losses),
        ],
        reaching: vec![0.0],
    };
    common::save_curves("drop_in", &curves)
}

/// The measurements of a training.
struct Run {
    /// The loss of each step.
    losses: Vec<f32>,
    /// The seconds after which each was known.
    times: Vec<f32>,
    /// The most memory of this process that was in use, above what was before.
    mebibytes: f32,
}

impl Run {
    fn seconds(&self) -> f32 {
        self.times[STEPS - 1]
    }
}

fn train<M: LanguageModel>(
    mut model: M,
    steps: usize,
    text: &[i64],
    alphabet: usize,
    device: &Device,
) -> Result<Run, Box<dyn Error>> {
    device.seed(11); // the same texts for each
    let mut adam = AdamConfig::new().init();
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let text = Tensor::<1, Int>::from_data(text, device);
    let [len] = text.dims();
    burn_fused_layers::release_memory(); // what kernels kept for their next results
    let before = MEMORY.current_usage_as_mb();
    MEMORY.reset_peak_usage();
    let (start, mut losses, mut times) = (Instant::now(), Vec::new(), Vec::new());
    for _ in 0..steps {
        // Windows of the text, and the same one character further on.
        let last = (len - CONTEXT) as f64;
        let starts = Tensor::<1>::random([BATCH], Distribution::Uniform(0.0, last), device);
        let offsets = Tensor::<1, Int>::arange(0..CONTEXT as i64, device).unsqueeze_dim::<2>(0);
        let indices = starts.int().unsqueeze_dim::<2>(1) + offsets;
        let indices = indices.reshape([BATCH * CONTEXT]);
        let windows = text.clone().select(0, indices.clone());
        let targets = text.clone().select(0, indices + 1);
        let logits = model.logits(windows.reshape([BATCH, CONTEXT]));
        let loss = cross_entropy.forward(logits.reshape([BATCH * CONTEXT, alphabet]), targets);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(LEARNING_RATE, model, gradients);
        losses.push(loss.try_into_scalar::<f32>()?);
        times.push(start.elapsed().as_secs_f32());
    }
    Ok(Run {
        losses,
        times,
        mebibytes: MEMORY.peak_usage_as_mb() - before,
    })
}
