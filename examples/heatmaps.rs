//! Heatmaps of attention weights: D2L's `show_heatmaps`, with labels, in the terminal and as a file.
//!
//! *Dive into Deep Learning* (D2L), section "Visualization" of "Queries, Keys, and Values": ten queries that attend to
//! the key of their own index alone, drawn as the identity matrix. Then a matrix per head, with words as labels.
//!
//! ```text
//! cargo run -p attention-examples --example heatmaps [folder for the pictures]
//! ```

use std::error::Error;

use attention_core::score::DotProductScoreConfig;
use attention_core::{Mask, MultiHeadAttentionConfig};
use attention_plot::HeatmapGrid;
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{folder, println, save_grid, show_heatmaps};

const WORDS: [&str; 6] = ["the", "key", "answers", "the", "query", "."];
const HEADS: usize = 2;
const SIZE: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(9);
    identity(&device)?;
    heads(&device)?;
    page()
}

// ANCHOR: identity
/// D2L: `show_heatmaps(torch.eye(10).reshape((1, 1, 10, 10)), xlabel='Keys', ylabel='Queries')`.
fn identity(device: &Device) -> Result<(), Box<dyn Error>> {
    let weights = Tensor::<2>::eye(10, device);
    show_heatmaps("heatmaps_identity", weights.reshape([1, 1, 10, 10]))
}
// ANCHOR_END: identity

// ANCHOR: heads
/// The weights of all heads of a layer, on one scale of colours.
fn heads(device: &Device) -> Result<(), Box<dyn Error>> {
    let normal = Distribution::Normal(0.0, 1.0);
    let words = Tensor::<3>::random([1, WORDS.len(), SIZE], normal, device);
    let score = DotProductScoreConfig::new().init();
    let attention = MultiHeadAttentionConfig::new(SIZE, HEADS).init_with(score, device);
    let output =
        attention.forward_with_weights(words.clone(), words.clone(), words, Mask::causal());

    let [_, heads, queries, keys] = output.weights.dims();
    let weights = output.weights.try_into_vec_as::<f32>()?;
    let heatmaps = HeatmapGrid::new(weights, [1, heads, queries, keys])?
        .with_titles((1..=heads).map(|head| format!("head {head}")))?
        .with_axis_titles("keys", "queries")
        .with_query_labels(WORDS)?
        .with_key_labels(WORDS)?;
    save_grid("heatmaps_heads", &heatmaps)
}
// ANCHOR_END: heads

// ANCHOR: page
/// The ending of the name says which format a file has; HTML shows the weight under the pointer.
fn page() -> Result<(), Box<dyn Error>> {
    let weights = vec![
        0.9, 0.1, 0.0, //
        0.1, 0.2, 0.7,
    ];
    let heatmap = HeatmapGrid::single(weights, [2, 3])?
        .with_query_labels(["il", "fait"])?
        .with_key_labels(["he", "is", "calm"])?;
    let file = folder()?.join("heatmaps.html");
    std::fs::write(&file, heatmap.to_file(&file)?)?;
    println!("saved {}", file.display());
    assert!(std::fs::read_to_string(file)?.contains("calm"));
    Ok(())
}
// ANCHOR_END: page
