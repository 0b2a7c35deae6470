//! Pairs of features, turned by given angles: rotary position embedding.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::config::Config;
use burn_fused_layers::harness::tracked::inputs;

/// The two features of each pair that rotary embedding turns, among the first `2 * pairs` of a row.
#[derive(Config, Copy, Debug, PartialEq, Eq)]
pub enum RotaryLayout {
    /// Neighbours: pair `n` is the features `2 n` and `2 n + 1`. RoFormer, GPT-J, Llama as Meta published it; ONNX's
    /// `interleaved = 1`.
    Interleaved,
    /// One of each half: pair `n` is the features `n` and `n + pairs`. GPT-NeoX, and Llama, Qwen, Gemma and most others
    /// in Hugging Face, by `rotate_half`; ONNX's `interleaved = 0`.
    HalfSplit,
}

inputs! {
    /// Inputs of [`AttentionOps::rotate`](super::AttentionOps::rotate). The angles have no gradient; beside half
    /// precision they are f32.
    pub struct RotateInputs[1] {
        /// `[batch, heads, rows, size]`
        tracked rows: FloatTensor<B>,
        /// The cosine of the angle of each pair, `[batch or 1, rows, pairs]`.
        fixed cosines: FloatTensor<B>,
        /// The sine, `[batch or 1, rows, pairs]`.
        fixed sines: FloatTensor<B>,
        /// Which features are a pair. Those after `2 * pairs` stay as they are.
        same layout: RotaryLayout,
    }
}
