//! Pairs of neighbouring features, turned by given angles: rotary position embedding.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};
use burn_fused_layers::harness::tracked::tracked_inputs;

/// Inputs of [`AttentionOps::rotate`](super::AttentionOps::rotate). The angles have no gradient; beside half precision
/// they are f32.
#[derive(Clone, Debug, ExtensionType)]
pub struct RotateInputs<B: Backend> {
    /// `[batch, heads, rows, size]`
    pub rows: FloatTensor<B>,
    /// The cosine of the angle of each pair, `[rows, size / 2]`.
    pub cosines: FloatTensor<B>,
    /// The sine, `[rows, size / 2]`.
    pub sines: FloatTensor<B>,
}

tracked_inputs!(RotateInputs[1], first: rows, {
    rows: tracked,
    cosines: fixed,
    sines: fixed,
});
