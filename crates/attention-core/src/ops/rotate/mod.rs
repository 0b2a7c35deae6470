//! Pairs of features, rotated by given angles: rotary position embedding.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::config::Config;
use burn_fused_layers::harness::tracked::inputs;

/// The layout of the pairs that rotary embedding rotates, among the first `2 * pairs` features of a row.
#[derive(Config, Copy, Debug, PartialEq, Eq)]
pub enum RotaryLayout {
    /// Neighbours: pair `n` has the features `2 n` and `2 n + 1`. Used by RoFormer, GPT-J, and Llama as Meta published
    /// it; ONNX's `interleaved = 1`.
    Interleaved,
    /// One feature of each half: pair `n` has the features `n` and `n + pairs`. Used by GPT-NeoX, and in Hugging Face
    /// (`rotate_half`) by Llama, Qwen, Gemma and most others; ONNX's `interleaved = 0`.
    HalfSplit,
}

inputs! {
    /// Inputs of [`AttentionOps::rotate`](super::AttentionOps::rotate). The angles have no gradient; for half precision
    /// they are f32.
    pub struct RotateInputs[1] {
        /// `[batch, heads, rows, size]`
        tracked rows: FloatTensor<B>,
        /// The cosine of the angle of each pair, `[batch or 1, rows, pairs]`.
        fixed cosines: FloatTensor<B>,
        /// The sine, `[batch or 1, rows, pairs]`.
        fixed sines: FloatTensor<B>,
        /// The features that form a pair. Features after `2 * pairs` stay as they are.
        same layout: RotaryLayout,
    }
}
