//! Additive scores with a location term, one query at a time.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn_fused_layers::backend::GradientSlot;
use burn_fused_layers::harness::tracked::inputs;

use super::mask::ResolvedMask;

inputs! {
    /// Inputs of [`AttentionOps::location_score`](super::AttentionOps::location_score).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct LocationScoreInputs[5] {
        /// `[batch, 1, 1, num_hiddens]`
        tracked queries: FloatTensor<B>,
        /// `[batch, 1, keys, num_hiddens]`
        tracked keys: FloatTensor<B>,
        /// `[num_hiddens]`
        tracked weight: FloatTensor<B>,
        /// The weights that the filters run over, `[batch, 1, channels, keys]`; in half precision they may be f32.
        tracked alignments: FloatTensor<B>,
        /// `[1, channels, width, num_hiddens]`, the width odd.
        tracked filters: FloatTensor<B>,
        /// Which keys the query attends to.
        #[extension_type]
        on mask: ResolvedMask<B>,
        /// The slot of keys that went through
        /// [`LayerOps::read_shared`](burn_fused_layers::backend::LayerOps::read_shared).
        same shared_keys: Option<GradientSlot>,
    }
    slots: |inputs| [None, inputs.shared_keys.clone(), None, None, None];
}
