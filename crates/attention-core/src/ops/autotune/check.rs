//! A check of a candidate's result before it is timed.
//!
//! A candidate that does not run on a device would be the fastest of all: neither a launch nor `sync` tells
//! (cubecl-wgpu 0.11.3, `docs/upstream.md`).
//!
//! A trial asks. A choice that CubeCL's `persistence` kept is tried no more, and so not checked again, under another
//! driver either.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, try_read_sync};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

/// Whether the result of a candidate is the kernel's, up to what is [granted]. A kernel whose elements are all 0 did
/// not run: a trial has no such inputs.
pub(super) fn agrees(result: CubeTensor, expected: CubeTensor) -> bool {
    let dtype = expected.dtype();
    if result.shape() != expected.shape() || result.dtype() != dtype {
        return false;
    }
    let [result, expected] =
        [result, expected].map(|tensor| attention_gpu::cast(tensor, DType::F32));
    let difference = CubeBackend::float_sub(result, expected.clone());
    let element = |tensor| {
        let data = try_read_sync(CubeBackend::float_into_data(tensor))?.ok()?;
        data.iter::<f32>().next()
    };
    // A maximum may skip a NaN; a sum has it.
    let sum = element(CubeBackend::float_sum(difference.clone()));
    let largest = |tensor| element(CubeBackend::float_max(CubeBackend::float_abs(tensor)));
    match (largest(difference), largest(expected)) {
        (Some(difference), Some(expected)) => {
            let is_finite = sum.is_some_and(f32::is_finite);
            is_finite && expected > 0.0 && difference <= granted(dtype) * expected
        }
        _ => false,
    }
}

/// The difference that is granted, relative to the largest element: in half precision 8 halves of a unit in the last
/// place, as everywhere, and in f32 as in `tests/autotune.rs`.
fn granted(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 8.0 / 2048.0,
        DType::BF16 => 8.0 / 256.0,
        _ => 2e-5,
    }
}
