//! Products of rows with a weight, as in a linear layer.

mod composed;
pub(super) mod cpu;

pub(super) use composed::composed;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{DType, Tensor};

use super::backends::{TensorMap, TrackedInputs};
use super::mask::WithIndicesOf;
use super::{AttentionOps, GradientSlot, OptionalTensor, SharedWeight};

/// Inputs of [`AttentionOps::linear`].
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct LinearInputs<B: Backend> {
    /// `[rows, in]`
    pub input: FloatTensor<B>,
    /// `[in, out]`
    pub weight: FloatTensor<B>,
    /// `[out]`
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// What calls with the same weight share.
    pub shared: Option<SharedWeight>,
}

impl<B: Backend> TrackedInputs<B, 3> for LinearInputs<B> {
    type On<A: WithIndicesOf<B>> = LinearInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.input
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        LinearInputs {
            input: tensors.tracked(self.input),
            weight: tensors.tracked(self.weight),
            bias: tensors.tracked_option(self.bias),
            shared: self.shared,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 3] {
        let slot = self.shared.as_ref().map(SharedWeight::slot);
        [None, slot, None]
    }
}

/// `input weight + bias`, all rows in one product; in other types than `f32` and `f64` by Burn's own.
///
/// # Shapes
/// - input `[rows, in]`, weight `[in, out]`, bias `[out]`, result `[rows, out]`
///
/// # Panics
/// If the shapes do not fit together.
pub fn linear(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: Option<SharedWeight>,
) -> Tensor<2> {
    let ([rows, size], [from, to]) = (input.dims(), weight.dims());
    assert!(
        size == from,
        "linear: input expected [rows, {from}], got {:?}",
        input.dims()
    );
    if let Some(bias) = &bias {
        assert!(
            bias.dims() == [to],
            "linear: bias expected [{to}], got {:?}",
            bias.dims()
        );
    }
    let dtype = input.dtype();
    let is_of_type = bias.as_ref().is_none_or(|bias| bias.dtype() == dtype);
    let has_product = matches!(dtype, DType::F32 | DType::F64);
    if !has_product || weight.dtype() != dtype || !is_of_type || rows * from * to == 0 {
        return burn::tensor::module::linear(input, weight, bias);
    }
    let inputs = LinearInputs {
        input: input.into_dispatch(),
        weight: weight.into_dispatch(),
        bias: OptionalTensor::of(bias),
        shared,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::linear(inputs))
}
