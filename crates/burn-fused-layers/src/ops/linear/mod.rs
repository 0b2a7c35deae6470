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

impl<B: Backend> LinearInputs<B> {
    /// The shape of the result, `[.., out]`, and the number of its rows.
    fn output_shape(&self) -> (Shape, usize) {
        let (mut shape, [_, to]) = (self.input.shape(), self.weight.shape().dims());
        let last = shape.num_dims() - 1;
        shape[last] = to;
        let rows = shape[..last].iter().product();
        (shape, rows)
    }
}
