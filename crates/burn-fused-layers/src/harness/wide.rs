//! The types in which operations compute.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Tensor};

use super::tracked::TrackedInputs;

/// The type in which a type is computed: f32 for half precision, otherwise the type itself.
pub fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        _ => dtype,
    }
}

/// Half precision as f32; other types unchanged, without an operation.
pub fn widened<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let dtype = wide(tensor.dtype());
    tensor.cast(dtype)
}

/// The result of `compute` for the [`widened`] tensor, rounded to the tensor's own type: sums and squares may exceed
/// half precision.
pub fn in_wide<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    compute: impl FnOnce(Tensor<D>) -> Tensor<E>,
) -> Tensor<E> {
    let dtype = tensor.dtype();
    compute(widened(tensor)).cast(dtype)
}

/// The tensor in a type; without an operation if that is its own.
pub fn cast<B: Backend>(tensor: FloatTensor<B>, to: DType) -> FloatTensor<B> {
    match tensor.dtype() == to {
        true => tensor,
        false => B::float_cast(tensor, to.into()),
    }
}

/// The result of a definition whose inputs are f32 where they are half precision, rounded to the type of the first.
pub fn define_in_wide<B: Backend, I: TrackedInputs<B, N>, const N: usize>(
    inputs: I,
    define: impl FnOnce(I::On<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let dtype = inputs.first().dtype();
    let inputs = inputs.map::<B>(&mut |tensor: Option<FloatTensor<B>>, _| {
        tensor.map(|tensor| {
            let dtype = wide(tensor.dtype());
            cast::<B>(tensor, dtype)
        })
    });
    cast::<B>(define(inputs), dtype)
}

/// A parameter that many calls read, [`widened`] if it may get gradients: they are summed in f32, and rounded once.
pub fn widened_in_training<const D: usize>(parameter: Tensor<D>) -> Tensor<D> {
    match parameter.device().is_autodiff() {
        true => widened(parameter),
        false => parameter,
    }
}
