//! A Transformer of your own that generates: letters in any order go in, the same letters in alphabetical order come
//! out.
//!
//! A decoder alone, as GPT. Letters, a bar and the answer are one text, and each token is predicted from those before
//! it. Training sees whole texts at once. Generation goes on from a cache of keys and values, one token a step. Radford
//! et al. 2019, "Language Models are Unsupervised Multitask Learners".
//!
//! ```text
//! cargo run -p attention-examples --example own_transformer
//! ```

// ANCHOR: imports
use std::error::Error;

use attention_core::position::{Rotary, RotaryConfig};
use attention_core::score::DotProductScoreConfig;
use attention_core::{
    DotProductScore, KeyValueCache, Mask, MultiHeadAttention, MultiHeadAttentionConfig, NewRows,
};
use attention_transformers::GenerateConfig;
use attention_transformers::generate::CausalModel;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::gelu;

mod common;
use common::{println, scalar};
// ANCHOR_END: imports

// ANCHOR: data
/// The token between letters and answer, and the one after the answer.
const BAR: u32 = 0;
const END: u32 = 1;
const FIRST_LETTER: u32 = 2;
const LETTERS: usize = 12;
const TOKENS: usize = FIRST_LETTER as usize + LETTERS;
/// The most letters of a text.
const LONGEST: usize = 7;

/// Different letters in any order, `[count, len]`.
fn draw(count: usize, len: usize, device: &Device) -> Tensor<2, Int> {
    let numbers = Tensor::<2>::random([count, LETTERS], Distribution::Default, device);
    numbers.argsort(1).narrow(1, 0, len) + FIRST_LETTER
}

/// Letters, bar, the letters in order, end: `[count, 2 * len + 2]`.
fn with_answer(letters: Tensor<2, Int>) -> Tensor<2, Int> {
    let [count, _] = letters.dims();
    let device = letters.device();
    let column = |token| Tensor::full([count, 1], token, &device);
    let answer = letters.clone().sort(1);
    Tensor::cat(vec![letters, column(BAR), answer, column(END)], 1)
}

/// The tokens of each text.
fn rows(texts: Tensor<2, Int>) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let [_, len] = texts.dims();
    let tokens = texts.try_into_vec_as::<u32>()?;
    Ok(tokens.chunks(len).map(<[u32]>::to_vec).collect())
}

fn text(tokens: &[u32]) -> String {
    let character = |token: &u32| match token.checked_sub(FIRST_LETTER) {
        Some(letter) => char::from(b'a' + letter as u8),
        None if *token == BAR => '|',
        None => '.',
    };
    tokens.iter().map(character).collect()
}
// ANCHOR_END: data

// ANCHOR: layer
const SIZE: usize = 32;
const HEADS: usize = 4;
/// Letters, bar and answer.
const POSITIONS: usize = 2 * LONGEST + 2;

/// Self-attention and a feed-forward network, each within a residual connection.
#[derive(Module, Debug)]
struct Layer {
    attention_norm: LayerNorm,
    attention: MultiHeadAttention<Rotary<DotProductScore>>,
    feed_forward_norm: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Layer {
    fn new(device: &Device) -> Self {
        let heads = MultiHeadAttentionConfig::new(SIZE, HEADS);
        // Positions turn queries and keys: the score depends on the distance of the two.
        let rotary = RotaryConfig::new(heads.head_size(), POSITIONS);
        let score = rotary.init_with(DotProductScoreConfig::new().init(), device);
        Self {
            attention_norm: LayerNormConfig::new(SIZE).init(device),
            attention: heads.init_with(score, device),
            feed_forward_norm: LayerNormConfig::new(SIZE).init(device),
            up: LinearConfig::new(SIZE, 4 * SIZE).init(device),
            down: LinearConfig::new(4 * SIZE, SIZE).init(device),
        }
    }

    /// Whole texts, `[batch, tokens, SIZE]`: each token attends to those before it, and to itself.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let rows = self.attention_norm.forward(x.clone());
        let (queries, keys, values) = (rows.clone(), rows.clone(), rows);
        let context = (self.attention).forward(queries, keys, values, Mask::causal());
        self.feed_forward(x + context)
    }

    /// The last tokens of texts, whose keys and values so far are in the cache: the same rows as by `forward`.
    fn forward_cached(&self, x: Tensor<3>, new: NewRows, cache: &mut KeyValueCache) -> Tensor<3> {
        let rows = self.attention_norm.forward(x.clone());
        let (queries, keys, values) = (rows.clone(), rows.clone(), rows);
        let context =
            (self.attention).forward_cached(queries, keys, values, new, cache, Mask::none());
        self.feed_forward(x + context)
    }

    fn feed_forward(&self, x: Tensor<3>) -> Tensor<3> {
        let rows = self.feed_forward_norm.forward(x.clone());
        x + self.down.forward(gelu(self.up.forward(rows)))
    }
}
// ANCHOR_END: layer

// ANCHOR: model
const LAYERS: usize = 2;

#[derive(Module, Debug)]
struct Sorter {
    tokens: Embedding,
    layers: Vec<Layer>,
    norm: LayerNorm,
    output: Linear,
}

impl Sorter {
    fn new(device: &Device) -> Self {
        Self {
            tokens: EmbeddingConfig::new(TOKENS, SIZE).init(device),
            layers: (0..LAYERS).map(|_| Layer::new(device)).collect(),
            norm: LayerNormConfig::new(SIZE).init(device),
            output: LinearConfig::new(SIZE, TOKENS).init(device),
        }
    }

    /// The logits of the token after each, all at once: `[batch, tokens, TOKENS]`.
    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let mut x = self.tokens.forward(tokens);
        for layer in &self.layers {
            x = layer.forward(x);
        }
        self.output.forward(self.norm.forward(x))
    }

    /// The state before the first token: a cache for each layer.
    fn state(&self) -> Vec<KeyValueCache> {
        vec![KeyValueCache::new(); LAYERS]
    }
}

impl CausalModel for Sorter {
    type State = Vec<KeyValueCache>;

    fn device(&self) -> Device {
        self.output.weight.device()
    }

    /// The logits of the token after the last one of each text, from its `new` tokens and the caches.
    fn next_logits(
        &self,
        tokens: Tensor<2, Int>,
        new: NewRows,
        caches: &mut Vec<KeyValueCache>,
    ) -> Tensor<2> {
        let [batch, width] = tokens.dims();
        let mut x = self.tokens.forward(tokens);
        for (layer, cache) in self.layers.iter().zip(caches) {
            x = layer.forward_cached(x, new, cache);
        }
        // Prompts of a batch have lengths of their own, and padding at the right.
        let lens = match new {
            NewRows::First(lens) => lens.to_vec(),
            NewRows::All | NewRows::Last(_) => vec![width; batch],
        };
        let rows = lens.iter().enumerate();
        let last = rows.map(|(text, len)| (text * width + len.saturating_sub(1)) as i64);
        let last = last.collect::<Vec<_>>();
        let last = Tensor::<1, Int>::from_data(last.as_slice(), &x.device());
        let last = x.reshape([batch * width, SIZE]).select(0, last);
        self.output.forward(self.norm.forward(last))
    }
}
// ANCHOR_END: model

// ANCHOR: training
const BATCH: usize = 32;
const STEPS: usize = 120;

fn train(device: &Device) -> Result<Sorter, Box<dyn Error>> {
    let training = device.clone().autodiff();
    let mut model = Sorter::new(&training);
    let mut adam = AdamConfig::new().init();
    let cross_entropy = CrossEntropyLossConfig::new().init(&training);
    for step in 1..=STEPS {
        let len = step % LONGEST + 1;
        let texts = with_answer(draw(BATCH, len, &training));
        let [_, tokens] = texts.dims();
        let logits = model.forward(texts.clone().narrow(1, 0, tokens - 1));
        // Nothing is expected of the letters: the bar is the first token whose next one is.
        let logits = logits.narrow(1, len, len + 1).flatten::<2>(0, 1);
        let targets = texts.narrow(1, len + 1, len + 1).flatten::<1>(0, 1);
        let loss = cross_entropy.forward(logits, targets);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let rate = 0.005 * (1.0 - (step - 1) as f64 / STEPS as f64);
        model = adam.step(rate, model, gradients);
        if step % 20 == 0 {
            println!("step {step}: loss {:.3}", scalar(loss)?);
        }
    }
    Ok(model.valid())
}
// ANCHOR_END: training

// ANCHOR: main
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(11);
    let model = train(&device)?;

    // Prompts of all lengths in one batch.
    let mut prompts = Vec::new();
    for len in 1..=LONGEST {
        for letters in rows(draw(20, len, &device))? {
            prompts.push([&letters[..], &[BAR]].concat());
        }
    }
    let generated = GenerateConfig::new(LONGEST + 1)
        .with_stop_tokens(vec![END])
        .generate(&model, model.state(), &prompts)
        .run();
    // The stop token is a part of what was generated.
    let is_right = |prompt: &[u32], answer: &[u32]| {
        let mut expected = prompt[..prompt.len() - 1].to_vec();
        expected.sort_unstable();
        expected.push(END);
        expected == answer
    };
    let pairs = prompts.iter().zip(&generated);
    for (prompt, of_prompt) in pairs.clone().skip(10).step_by(20) {
        println!("{}{}", text(prompt), text(&of_prompt.tokens));
    }
    let right = pairs.filter(|(prompt, of_prompt)| is_right(prompt, &of_prompt.tokens));
    let accuracy = right.count() as f32 / prompts.len() as f32;
    println!(
        "right of {} new texts: {:.1} %",
        prompts.len(),
        100.0 * accuracy
    );
    assert!(accuracy > 0.9, "it should have learned the alphabet");
    check_cache(&model, &device)
}

/// Token by token from the cache, the logits equal the whole text's.
fn check_cache(model: &Sorter, device: &Device) -> Result<(), Box<dyn Error>> {
    let texts = with_answer(draw(3, LONGEST, device));
    let [_, tokens] = texts.dims();
    let whole = model.forward(texts.clone());
    let mut caches = model.state();
    for at in 0..tokens {
        let token = texts.clone().narrow(1, at, 1);
        let logits = model.next_logits(token, NewRows::All, &mut caches);
        let difference = logits - whole.clone().narrow(1, at, 1).squeeze_dim(1);
        assert!(scalar(difference.abs().max())? < 1e-3);
    }
    Ok(())
}
// ANCHOR_END: main
