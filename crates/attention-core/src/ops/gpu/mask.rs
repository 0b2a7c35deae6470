//! Resolved masks, as the kernels read them.

use attention_gpu::DeviceMask;
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::upload::upload;

use crate::ops::mask::ResolvedMask;

/// The mask on the device of `queries`, `[batch, heads, queries, size]`.
pub(in crate::ops) fn device_mask(
    mask: &ResolvedMask<CubeBackend>,
    queries: &CubeTensor,
    num_keys: usize,
) -> DeviceMask {
    let [_, _, num_queries, _] = queries.shape().dims();
    let all = DeviceMask::new(num_queries);
    match mask.clone() {
        ResolvedMask::None => all,
        ResolvedMask::Host { mask } => {
            let (masked, shape) = mask.masked_pairs(num_keys);
            let keep = masked.into_iter().map(|masked| !masked).collect();
            all.with_keep(upload::<CubeBackend>(keep, shape, &queries.device()))
        }
        ResolvedMask::Intervals { start, end } => all.with_intervals(start, end),
        ResolvedMask::Dense { keep } => all.with_keep(keep),
        ResolvedMask::IntervalsAndDense { start, end, keep } => {
            all.with_intervals(start, end).with_keep(keep)
        }
    }
}
