//! Resolved masks, as the kernels read them.

use attention_gpu::DeviceMask;
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use crate::ops::mask::ResolvedMask;

/// The mask on the device of `queries`, `[batch, heads, queries, size]`.
pub(in crate::ops) fn device_mask(
    mask: &ResolvedMask<CubeBackend>,
    queries: &CubeTensor,
    num_keys: usize,
) -> DeviceMask {
    let [_, _, num_queries, _] = queries.shape().dims();
    let (intervals, keep) = mask.clone().to_device(num_keys, &queries.device());
    let mut mask = DeviceMask::new(num_queries);
    if let Some([start, end]) = intervals {
        mask = mask.with_intervals(start, end);
    }
    if let Some(keep) = keep {
        mask = mask.with_keep(keep);
    }
    mask
}
