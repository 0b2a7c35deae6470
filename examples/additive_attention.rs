//! Additive attention: queries and keys of different feature dimensions, compared by a small network.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Additive Attention": the toy example, which
//! must give `[[2, 3, 4, 5]]` and `[[10, 11, 12, 13]]`, and its heatmap.
//!
//! ```text
//! cargo run -p attention-examples --example additive_attention [folder for the heatmap]
//! ```

use std::error::Error;

use attention_core::{AdditiveAttentionConfig, AttentionOutput, Mask};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{print_matrices, show_heatmaps};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    let [batch, num_keys, query_size, key_size] = [2, 10, 20, 2];

    // ANCHOR: inputs
    let normal = Distribution::Normal(0.0, 1.0);
    let queries = Tensor::<3>::random([batch, 1, query_size], normal, &device);
    // All keys are the same, so every score of a query is the same.
    let keys = Tensor::<3>::ones([batch, num_keys, key_size], &device);
    // Both examples have the same values: 0, 1, 2, 3 for the first key, and so on to 39 at the end of the tenth.
    let values = Tensor::<1, Int>::arange(0..40, &device).float();
    let values = values.reshape([1, num_keys, 4]).repeat_dim(0, batch);
    let mask = Mask::valid_lens(Tensor::from_ints([2, 6], &device));
    // ANCHOR_END: inputs

    // ANCHOR: attention
    // Dropout acts in training only, that is, on a device made by `device.autodiff()`; here it is off.
    let num_hiddens = 8;
    let config = AdditiveAttentionConfig::new(query_size, key_size, num_hiddens).with_dropout(0.1);
    let attention = config.init(&device);

    let AttentionOutput { context, weights } =
        attention.forward_with_weights(queries, keys, values, &mask);
    print_matrices("context:", &context)?;
    print_matrices("weights:", &weights)?;
    // ANCHOR_END: attention

    // Equal keys get equal weights: the context is the mean of the first 2 values, and of the first 6.
    let mean = [[[2., 3., 4., 5.]], [[10., 11., 12., 13.]]];
    let difference = context - Tensor::<3>::from_floats(mean, &device);
    assert!(difference.abs().max().try_into_scalar::<f32>()? < 1e-5);

    // One heatmap, with a row for each example.
    show_heatmaps(
        "additive_attention",
        weights.reshape([1, 1, batch, num_keys]),
    )
}
