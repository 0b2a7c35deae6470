//! Products of rows with a weight, as in a linear layer.

pub(super) mod composed;
pub(super) mod cpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

use crate::harness::optional::OptionalTensor;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::linear`](super::LayerOps::linear).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct LinearInputs[3] {
        /// `[.., in]`
        tracked input: FloatTensor<B>,
        /// `[in, out]`
        tracked weight: FloatTensor<B>,
        /// `[out]`
        #[extension_type]
        tracked_option bias: OptionalTensor<B>,
        /// State that calls with the same weight share.
        same shared: Option<SharedWeight>,
    }
    slots: |inputs| [None, SharedWeight::slot_of(&inputs.shared), None];
}

/// `shape` with another size of the last axis.
fn with_last(mut shape: Shape, size: usize) -> Shape {
    let last = shape.num_dims() - 1;
    shape[last] = size;
    shape
}

/// The rows along the last axis, `[rows, size]`.
pub(super) fn rows<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let shape = tensor.shape();
    if shape.num_dims() == 2 {
        return tensor;
    }
    let (size, others) = shape.split_last().expect("an axis of features");
    let shape = [others.iter().product(), *size];
    B::float_reshape(tensor, shape.into())
}
