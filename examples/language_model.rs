//! A language model of characters: trained on any text file, then asked for more of it.
//!
//! The model is a small Llama: rotary positions, RMS norms, SwiGLU, a head tied to the embedding. Training sees windows
//! of a text at once, each character predicted from those before it; generation goes on from a cache of keys and
//! values, one character a step. Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
//!
//! ```text
//! cargo run --release -p attention-examples --example language_model -- FILE [STEPS]
//! ```
//!
//! Without a file it learns this one, and not for long.

use std::error::Error;
use std::time::Instant;

use attention_core::position::{Rotary, RotaryConfig};
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, NewRows};
use attention_transformers::generate::RandomSamplingConfig;
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    FeedForwardActivation, GenerateConfig, LanguageModel, LanguageModelConfig, Sampling,
    TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{print, println};

const LAYERS: usize = 3;
const HEADS: usize = 4;
const HIDDENS: usize = 128;
const BATCH: usize = 12;
/// The number of characters that a prediction is made from, at most.
const CONTEXT: usize = 64;
/// The number of characters that are generated.
const GENERATED: usize = 200;
const LEARNING_RATE: f64 = 2e-3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (text, steps) = match arguments.next() {
        Some(file) => (std::fs::read_to_string(file)?, 2000),
        None => (include_str!("language_model.rs").to_string(), 25),
    };
    let steps = arguments.next().map_or(Ok(steps), |steps| steps.parse())?;
    let alphabet = Alphabet::of(&text);
    let tokens = alphabet.tokens(&text);
    if tokens.len() <= CONTEXT {
        return Err(format!(
            "a text of more than {CONTEXT} characters expected, got {}",
            tokens.len()
        )
        .into());
    }
    println!(
        "{} characters, {} of them different",
        tokens.len(),
        alphabet.0.len()
    );

    let device = Device::default();
    device.seed(5);
    let model = train(&tokens, alphabet.0.len(), steps, &device.clone().autodiff())?;

    // Without autodiff: no gradients, no dropout, and a cache.
    let model = model.valid();
    let sampling = RandomSamplingConfig::new()
        .with_temperature(0.8)
        .with_top_k(Some(20));
    let generate = GenerateConfig::new(GENERATED).with_sampling(Sampling::Random(sampling));
    let start = Instant::now();
    let mut count = 0;
    println!();
    for step in generate.generate(&model, model.cache(), &[&tokens[..1]]) {
        let token = step[0].ok_or("the one text goes on to its end")?;
        print!("{}", alphabet.character(token));
        count += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("\n\n{:.0} characters a second", f64::from(count) / seconds);
    assert_eq!(count, GENERATED as u32);
    Ok(())
}

type Model = LanguageModel<Rotary<DotProductScore>>;

fn train(
    tokens: &[u32],
    vocab_size: usize,
    steps: usize,
    device: &Device,
) -> Result<Model, Box<dyn Error>> {
    // ANCHOR: model
    let layer = TransformerLayerConfig::new(HIDDENS, HEADS, 2 * HIDDENS)
        .with_norm(NormConfig::rms())
        .with_activation(FeedForwardActivation::SwiGlu)
        .with_attention_bias(false)
        .with_feed_forward_bias(false)
        // A text that goes on for longer is read through a window of what was trained.
        .with_window(Some(CONTEXT));
    let stack = TransformerEncoderConfig::new(layer, LAYERS);
    let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(vocab_size, HIDDENS), stack);
    let rotary = RotaryConfig::new(HIDDENS / HEADS, CONTEXT + GENERATED);
    let score = |_| rotary.init_with(DotProductScoreConfig::new().init(), device);
    let mut model = config.init_with(score, device);
    // ANCHOR_END: model
    println!(
        "{} parameters, {steps} steps of {BATCH} x {CONTEXT} characters",
        model.num_params()
    );

    let mut adam = AdamWConfig::new().with_weight_decay(0.1).init();
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let tokens = Tensor::<1, Int>::from_data(tokens, device);
    let [len] = tokens.dims();
    let (start, mut first, mut last) = (Instant::now(), f32::NAN, f32::NAN);
    for step in 1..=steps {
        // Windows of the text, and the same one character further on.
        let starts = Tensor::<1>::random(
            [BATCH],
            Distribution::Uniform(0.0, (len - CONTEXT) as f64),
            device,
        );
        let offsets = Tensor::<1, Int>::arange(0..CONTEXT as i64, device).unsqueeze_dim::<2>(0);
        let indices = (starts.int().unsqueeze_dim::<2>(1) + offsets).reshape([BATCH * CONTEXT]);
        let windows = tokens
            .clone()
            .select(0, indices.clone())
            .reshape([BATCH, CONTEXT]);
        let targets = tokens.clone().select(0, indices + 1);

        let logits = model.forward(windows, NewRows::All);
        let loss = cross_entropy.forward(logits.reshape([BATCH * CONTEXT, vocab_size]), targets);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(LEARNING_RATE, model, gradients);
        if step == 1 || step % (steps / 10).max(1) == 0 {
            last = loss.try_into_scalar::<f32>()?;
            let seconds = start.elapsed().as_secs_f64();
            println!("step {step}: loss {last:.3} after {seconds:.0} s");
        }
        if step == 1 {
            first = last;
        }
    }
    assert!(
        last < first || steps < 10,
        "the loss should fall: it was {first}, and is {last}"
    );
    Ok(model)
}

/// The characters of a text; the index of one is its token.
struct Alphabet(Vec<char>);

impl Alphabet {
    fn of(text: &str) -> Self {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Self(characters)
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let token = |character| self.0.partition_point(|other| *other < character) as u32;
        text.chars().map(token).collect()
    }

    fn character(&self, token: u32) -> char {
        self.0[token as usize]
    }
}
