//! Scaled dot-product attention by hand, in four lines of tensor operations, and the same from the library.
//!
//! The notebook "Attention Basics", section "Scaled-dot-product Attention". Its letters: B examples, J words of the
//! target (queries), I words of the source (keys and values), feature dimension K.
//!
//! ```text
//! cargo run -p attention-examples --example attention_by_hand
//! ```

use std::error::Error;

use attention_core::{DotProductAttentionConfig, Mask};
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::softmax;

mod common;
use common::println;

const B: usize = 3;
const J: usize = 10;
const I: usize = 9;
const K: usize = 18;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    let random = |rows| Tensor::<3>::random([B, rows, K], Distribution::Default, &device);
    let (q, k, v) = (random(J), random(I), random(I));

    // ANCHOR: by_hand
    // The dot product of each query with each key: [B, J, K] x [B, K, I] -> [B, J, I]
    let scores = q.clone().matmul(k.clone().transpose());
    // The standard deviation of a sum of K products grows with sqrt(K).
    let scores = scores / (K as f64).sqrt();
    // The softmax of each query over the keys.
    let weights = softmax(scores, 2);
    // Weighted sums of values: [B, J, I] x [B, I, K] -> [B, J, K]
    let context = weights.clone().matmul(v.clone());
    // ANCHOR_END: by_hand

    println!("attention weights: {:?}", weights.dims());
    println!("context:           {:?}", context.dims());
    assert_eq!(weights.dims(), [B, J, I]);
    assert_eq!(context.dims(), [B, J, K]);

    let sums = weights.sum_dim(2);
    let first = sums.clone().slice([0..1, 0..1]);
    println!(
        "first example, first query, sum over the keys: {}",
        first.try_into_scalar::<f32>()?
    );
    assert!((sums - 1.0).abs().max().try_into_scalar::<f32>()? < 1e-6);

    let attention = DotProductAttentionConfig::new().init();
    let difference = attention.forward(q, k, v, Mask::none()) - context;
    let difference = difference.abs().max().try_into_scalar::<f32>()?;
    println!("largest difference from `DotProductAttention`: {difference:e}");
    assert!(difference < 1e-6);
    Ok(())
}
