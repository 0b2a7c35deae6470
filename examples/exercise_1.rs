//! Exercise 1: other keys in the toy example. Do additive and dot-product attention still give the same weights?
//!
//! *Dive into Deep Learning*, "Attention Scoring Functions", section "Exercises". The rows of the picture are the keys
//! (all the same, or random), its columns the attentions (additive, dot product).
//!
//! ```text
//! cargo run -p attention-examples --example exercise_1 [folder for the heatmap]
//! ```

use std::error::Error;

use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask};
use attention_plot::HeatmapGrid;
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{scalar, show_grid};

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

    // Both have the same queries here, of the size of the keys: the dot product could not do otherwise.
    let additive = AdditiveAttentionConfig::new(SIZE, SIZE, 8).init(&device);
    let dot = DotProductAttentionConfig::new().init();
    let weights = |query: &Tensor<3>, keys: &Tensor<3>| {
        let (query, keys, values) = (query.clone(), keys.clone(), values.clone());
        let of_additive =
            additive.forward_with_weights(query.clone(), keys.clone(), values.clone(), &mask);
        let of_dot = dot.forward_with_weights(query, keys, values, &mask);
        [of_additive.weights, of_dot.weights]
    };
    let difference = |[additive, dot]: [Tensor<3>; 2]| scalar((additive - dot).abs().max());

    let shown = [weights(&query, &same), weights(&query, &random)].concat();
    let shown: Tensor<3> = Tensor::cat(shown, 1).swap_dims(0, 1);
    let numbers = shown.try_into_vec_as::<f32>()?;
    let heatmaps = HeatmapGrid::new(numbers, [2, 2, BATCH, KEYS])?
        .with_titles(["additive", "dot product"])?
        .with_axis_titles("keys", "equal keys above, random keys below");
    show_grid("exercise_1", &heatmaps)?;

    let equal_keys = difference(weights(&query, &same))?;
    let random_keys = difference(weights(&query, &random))?;
    println!("\nlargest difference between the weights of the two:");
    println!("  equal keys   {equal_keys:.6}");
    println!("  random keys  {random_keys:.6}");
    assert!(equal_keys < 1e-6 && random_keys > 0.01);

    // Weights depend on how the scores of one query differ from key to key. A query of zeros makes all dot products 0,
    // whatever the keys; the additive score still sees the keys through `tanh(W_k k)`.
    let [of_additive, of_dot] = weights(&query.zeros_like(), &random);
    // Of the first example, which sees two keys.
    let spread = |weights: Tensor<3>| {
        let seen = weights.slice([0..1, 0..1, 0..2]);
        scalar(seen.clone().max() - seen.min())
    };
    let (of_additive, of_dot) = (spread(of_additive)?, spread(of_dot)?);
    println!("a query of zeros, random keys: its weights for the two keys differ by");
    println!("  additive     {of_additive:.6}");
    println!("  dot product  {of_dot:.6}");
    assert!(of_dot < 1e-6 && of_additive > 1e-3);

    println!(
        "\nThey agree as long as all keys of a query get one score, as equal keys do in any scoring function: softmax\n\
         then shares its weight evenly. As soon as keys differ the two compare them by different rules, and agree no\n\
         more."
    );
    Ok(())
}
