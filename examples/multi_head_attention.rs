//! Multi-head attention: causal self-attention with positions, keys shared by groups of heads, and heads around another
//! score.
//!
//! *Dive into Deep Learning* (D2L), section "Multi-Head Attention".
//!
//! ```text
//! cargo run -p attention-examples --example multi_head_attention [folder for the heatmap]
//! ```

use std::error::Error;

use attention_core::position::{AlibiConfig, RotaryConfig};
use attention_core::score::{AdditiveScoreConfig, Biased, DotProductScoreConfig};
use attention_core::{Mask, MultiHeadAttentionConfig, MultiHeadAttentionOutput, Normalizer};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{println, scalar, show_heatmaps};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    let [batch, words, size, heads] = [2, 6, 16, 4];
    let normal = Distribution::Normal(0.0, 1.0);
    let text = Tensor::<3>::random([batch, words, size], normal, &device);
    let difference = |a: Tensor<3>, b: Tensor<3>| scalar((a - b).abs().max());

    // Four heads of queries, two of keys and values: a decoder keeps half as many keys. Each word attends to itself and
    // the words before it, and rotary embedding makes the scores depend on the distance between two words.
    let config = MultiHeadAttentionConfig::new(size, heads).with_num_key_value_heads(Some(2));
    let rotary = RotaryConfig::new(config.head_size(), words);
    let score = rotary.init_with(DotProductScoreConfig::new().init(), &device);
    let attention = config.init_with(score, &device);
    let MultiHeadAttentionOutput { context, weights } =
        attention.forward_with_weights(text.clone(), text.clone(), text.clone(), Mask::causal());
    println!("rotary, two heads of keys: context {:?}", context.dims());
    let [first, ..] = [weights.clone().narrow(2, 0, 1).narrow(3, 0, 1)];
    assert!(
        (scalar(first.min())? - 1.0).abs() < 1e-6,
        "the first word attends to itself alone"
    );
    show_heatmaps("multi_head_attention", weights.narrow(0, 0, 1))?;

    // The last word as the only query, with prepared keys, gives the last row of the context.
    let memory = attention.prepare(text.clone(), text.clone(), Mask::causal());
    let last = attention.attend(text.clone().narrow(1, words - 1, 1), &memory, Mask::none());
    assert!(difference(last, context.narrow(1, words - 1, 1))? < 1e-5);

    // Other positions and another normalizer: ALiBi lowers a score in proportion to the distance of two words, and
    // sparsemax gives weight 0 to distant words.
    let config = MultiHeadAttentionConfig::new(size, heads);
    let alibi = AlibiConfig::new(heads).init();
    let score = Biased::new(DotProductScoreConfig::new().init(), alibi);
    let mut attention = config.init_with(score, &device);
    attention.attention = attention.attention.with_normalizer(Normalizer::Sparsemax);
    let output =
        attention.forward_with_weights(text.clone(), text.clone(), text.clone(), Mask::causal());
    let left_out = output
        .weights
        .equal_elem(0.0)
        .int()
        .sum()
        .into_scalar::<i32>();
    let pairs = (batch * heads * words * words) as i32;
    println!("ALiBi, sparsemax: {left_out} of {pairs} weights are 0");
    assert!(
        left_out > pairs * (words as i32 - 1) / (2 * words as i32),
        "more than the mask sets to 0"
    );

    // Heads around additive attention: the score's queries and keys have the feature dimension of one head.
    let score = AdditiveScoreConfig::new(config.head_size(), config.head_size(), 8);
    let attention = config.init_with(score.init(&device), &device);
    let lens = Mask::valid_lens(Tensor::from_ints([4, 6], &device));
    let context = attention.forward(text.clone(), text.clone(), text.clone(), &lens);
    // The words beyond the length of the first text are ignored.
    let other = text.clone().slice_fill([0..1, 4..6, 0..size], 7.0);
    let same = attention.forward(text, other.clone(), other, &lens);
    assert_eq!(difference(same, context)?, 0.0);
    println!("additive heads: padding changes nothing");
    Ok(())
}
