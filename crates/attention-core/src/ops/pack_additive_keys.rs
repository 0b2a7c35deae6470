//! Keys in the order in which the additive kernel reads them.

use attention_kernels::AdditiveScoreInputs;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn_fused_layers::harness::tracked::inputs;
use cpu_kernels::Level;

use super::host::{CpuBackend, CpuReal, on_host, readable, rows, tensor, with_compiled};
use super::mask::ResolvedMask;

inputs! {
    /// Inputs of [`AttentionOps::pack_additive_keys`](super::AttentionOps::pack_additive_keys).
    pub struct PackAdditiveKeysInputs[1] {
        /// `[batch, key_heads, keys, num_hiddens]`
        tracked keys: FloatTensor<B>,
        /// Which keys each query attends to.
        #[extension_type]
        on mask: ResolvedMask<B>,
        /// The number of queries that the mask is for.
        same num_queries: usize,
    }
}

/// The definition: the keys unchanged.
pub(super) fn composed<B: Backend>(inputs: PackAdditiveKeysInputs<B>) -> FloatTensor<B> {
    inputs.keys
}

/// Runs in the kernel of `attention-kernels`; half precision is packed as f32.
pub(super) fn cpu<B: CpuBackend>(inputs: PackAdditiveKeysInputs<B>) -> FloatTensor<B> {
    let inputs = readable(inputs);
    let (keys, mask, num_queries) = (&inputs.keys, on_host(&inputs.mask), inputs.num_queries);
    with_compiled!(keys.dtype(), E => {
        let shape = AdditiveScoreInputs::<E>::packed_shape(keys.shape().dims());
        let rows = rows::<B, E>(keys);
        let packed = AdditiveScoreInputs::packed_keys(rows, mask, num_queries, Level::current());
        tensor::<B, E>(packed, shape, E::DTYPE, keys)
    })
}
