//! A check of Burn's attention before it is timed.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, try_read_sync};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use crate::ops::attention_backend::AttentionBackend;
use crate::ops::{DotProductAttentionInputs, dot_product_attention};

/// The difference that is granted, relative to the largest element: 8 halves of a unit in the last place of f16, as
/// everywhere.
const GRANTED: f32 = 8.0 / 2048.0;

/// Whether Burn's attention gives what the kernel gives, up to [`GRANTED`]: it may sum in half precision. One that does
/// not run on a device would be the fastest of all: neither a launch nor `sync` tells (cubecl-wgpu 0.11.3,
/// `docs/upstream.md`).
///
/// A trial asks. A choice that CubeCL's `persistence` kept is tried no more, and so not checked again, under another
/// driver either.
pub(super) fn burns_agrees(inputs: &DotProductAttentionInputs<CubeBackend>) -> bool {
    let Some(kernel) = CubeBackend::KERNELS.dot_product_attention else {
        return false;
    };
    let wide = |tensor: CubeTensor| attention_gpu::cast(tensor, DType::F32);
    let expected = wide((kernel.forward)(inputs.clone()).0);
    let result = wide(dot_product_attention::burns::forward(inputs.clone()));
    if result.shape() != expected.shape() {
        return false;
    }
    let difference = CubeBackend::float_sub(result, expected.clone());
    let largest = |tensor| {
        let largest = CubeBackend::float_max(CubeBackend::float_abs(tensor));
        let data = try_read_sync(CubeBackend::float_into_data(largest))?.ok()?;
        data.iter::<f32>().next()
    };
    let agrees = match (largest(difference), largest(expected)) {
        // Not `>`: a NaN does not agree.
        (Some(difference), Some(expected)) => difference <= GRANTED * expected,
        _ => false,
    };
    if !agrees {
        log::warn!(
            "attention: Burn's own gives something else than ours on {:?}, and is left out there",
            inputs.queries.device
        );
    }
    agrees
}
