//! A new project with attention, from nothing: `cargo run` in this folder.
//!
//! Additive attention of *Dive into Deep Learning*, "Attention Scoring Functions".

use attention_core::{AdditiveAttentionConfig, Mask};
use burn::prelude::*;
use burn::tensor::Distribution;

fn main() {
    let device = Device::flex();
    let attention = AdditiveAttentionConfig::new(20, 2, 8).init(&device);

    let queries = Tensor::<3>::random([2, 1, 20], Distribution::Default, &device);
    let keys = Tensor::<3>::random([2, 10, 2], Distribution::Default, &device);
    let values = Tensor::<3>::random([2, 10, 4], Distribution::Default, &device);
    // The first example has 2 of the 10 keys, the second 6; the rest is padding.
    let mask = Mask::valid_lens(Tensor::from_ints([2, 6], &device));

    let context = attention.forward(queries, keys, values, &mask);
    println!("{context:.4}");
    assert_eq!(context.dims(), [2, 1, 4]);
}
