//! Tools that the `gpu.rs` of all operations share, between the operations and the kernels of `attention-gpu`.

use attention_gpu::{DeviceMask, contiguous};
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::tracked::TrackedInputs;

use super::mask::ResolvedMask;

/// The inputs, with contiguous elements in every tensor that may have a gradient.
pub(super) fn readable<I, const N: usize>(inputs: I) -> I::On<CubeBackend>
where
    I: TrackedInputs<CubeBackend, N>,
{
    inputs.map::<CubeBackend>(&mut |tensor: Option<CubeTensor>, tracked: bool| {
        if tracked {
            tensor.map(contiguous)
        } else {
            tensor
        }
    })
}

/// The mask on the device of `queries`, `[batch, heads, queries, size]`.
pub(super) fn device_mask(
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
