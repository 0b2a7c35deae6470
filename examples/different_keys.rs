//! Different keys in the toy example: do additive and dot-product attention still give the same weights?
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Exercises", 1. The picture has a heatmap
//! for each attention, with two examples of equal keys and two of random keys.
//!
//! ```text
//! cargo run -p attention-examples --example different_keys [folder for the heatmap]
//! ```

use std::error::Error;

use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask};
use attention_plot::HeatmapGrid;
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{println, scalar, show_grid};

const BATCH: usize = 2;
const KEYS: usize = 10;
const SIZE: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(1);
    let normal = Distribution::Normal(0.0, 1.0);
    let query = Tensor::<3>::random([BATCH, 1, SIZE], normal, &device);
    let same = Tensor::<3>::ones([BATCH, KEYS, SIZE], &device);
    let random = Tensor::<3>::random([BATCH, KEYS, SIZE], normal, &device);
    let values = Tensor::<3>::ones([BATCH, KEYS, 1], &device);
    let mask = Mask::valid_lens(Tensor::from_ints([2, 6], &device));

    // ANCHOR: weights
    // Both get the same queries, of the feature dimension of the keys: the dot product needs that.
    let additive = AdditiveAttentionConfig::new(SIZE, SIZE, 8).init(&device);
    let dot = DotProductAttentionConfig::new().init();
    let weights = |query: &Tensor<3>, keys: &Tensor<3>| {
        let (query, keys, values) = (query.clone(), keys.clone(), values.clone());
        let of_additive =
            additive.forward_with_weights(query.clone(), keys.clone(), values.clone(), &mask);
        let of_dot = dot.forward_with_weights(query, keys, values, &mask);
        [of_additive.weights, of_dot.weights]
    };
    // ANCHOR_END: weights
    let difference = |[additive, dot]: [Tensor<3>; 2]| scalar((additive - dot).abs().max());

    // For each attention the examples with equal keys, then those with random keys.
    let [of_equal, of_random] = [&same, &random].map(|keys| weights(&query, keys));
    let pairs = of_equal.into_iter().zip(of_random);
    let shown = pairs.flat_map(|(equal, random)| [equal, random]).collect();
    let shown: Tensor<3> = Tensor::cat(shown, 0);
    let heatmaps = HeatmapGrid::new(shown.try_into_vec_as::<f32>()?, [1, 2, 2 * BATCH, KEYS])?
        .with_titles(["additive", "dot product"])?
        .with_axis_titles("keys", "examples")
        .with_query_labels(["equal 1", "equal 2", "random 1", "random 2"])?;
    show_grid("different_keys", &heatmaps)?;

    // ANCHOR: differences
    let equal_keys = difference(weights(&query, &same))?;
    let random_keys = difference(weights(&query, &random))?;
    println!("\nlargest difference between the weights of the two:");
    println!("  equal keys   {equal_keys:.6}");
    println!("  random keys  {random_keys:.6}");
    assert!(equal_keys < 1e-6 && random_keys > 0.01);
    // ANCHOR_END: differences

    // ANCHOR: zeros
    // Weights depend on how the scores of one query differ from key to key. With a query of zeros all dot products are
    // 0, whatever the keys; the additive score still depends on the keys, through `tanh(W_k k)`.
    let [of_additive, of_dot] = weights(&query.zeros_like(), &random);
    // The difference in the first example, which attends to two keys.
    let spread = |weights: Tensor<3>| {
        let attended = weights.slice([0..1, 0..1, 0..2]);
        scalar(attended.clone().max() - attended.min())
    };
    let (of_additive, of_dot) = (spread(of_additive)?, spread(of_dot)?);
    println!("a query of zeros, random keys: its weights for the two keys differ by");
    println!("  additive     {of_additive:.6}");
    println!("  dot product  {of_dot:.6}");
    assert!(of_dot < 1e-6 && of_additive > 1e-3);
    // ANCHOR_END: zeros

    println!(
        "\nThe weights are the same where all keys of a query have the same score, as equal keys do in any scoring\n\
         function: softmax then gives each the same weight. Where keys differ, the two score them differently."
    );
    Ok(())
}
