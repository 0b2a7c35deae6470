//! Scaled dot-product attention: no parameters, but queries and keys must have the same feature dimension.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Scaled Dot-Product Attention": the toy
//! example, which must give `[[2, 3, 4, 5]]` and `[[10, 11, 12, 13]]`, and its heatmap.
//!
//! ```text
//! cargo run -p attention-examples --example dot_product_attention [folder for the heatmap]
//! ```

use std::error::Error;

use attention_core::{AttentionOutput, DotProductAttentionConfig, Mask};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{print_matrices, show_heatmaps};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    let [batch, num_keys, size] = [2, 10, 2];

    // ANCHOR: inputs
    // Keys, values and lengths as in `additive_attention.rs`; queries have the feature dimension of the keys.
    let normal = Distribution::Normal(0.0, 1.0);
    let queries = Tensor::<3>::random([batch, 1, size], normal, &device);
    let keys = Tensor::<3>::ones([batch, num_keys, size], &device);
    let values = Tensor::<1, Int>::arange(0..40, &device).float();
    let values = values.reshape([1, num_keys, 4]).repeat_dim(0, batch);
    let mask = Mask::valid_lens(Tensor::from_ints([2, 6], &device));
    // ANCHOR_END: inputs

    // ANCHOR: attention
    // No parameters, so no sizes and no device: it runs where its inputs are.
    let attention = DotProductAttentionConfig::new().with_dropout(0.5).init();

    let AttentionOutput { context, weights } =
        attention.forward_with_weights(queries, keys, values, &mask);
    print_matrices("context:", &context)?;
    print_matrices("weights:", &weights)?;
    // ANCHOR_END: attention

    // As with additive attention: equal keys, equal weights.
    let mean = [[[2., 3., 4., 5.]], [[10., 11., 12., 13.]]];
    let difference = context - Tensor::<3>::from_floats(mean, &device);
    assert!(difference.abs().max().try_into_scalar::<f32>()? < 1e-5);

    show_heatmaps(
        "dot_product_attention",
        weights.reshape([1, 1, batch, num_keys]),
    )
}
