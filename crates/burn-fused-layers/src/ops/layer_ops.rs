//! The list of operations, a Burn backend extension.

use burn::backend::backend_extension;
use burn::backend::tensor::{FloatTensor, IntTensor};

use super::layer_backend::LayerBackend;
use super::recurrent::RecurrentInputs;
use super::recurrent::states::StepsRead;
use super::{
    ActivateInputs, ActivateLinearInputs, DropoutFactorsInputs, LinearCrossEntropyInputs,
    LinearInputs, NormalizeInputs, SelectRowsInputs, activate, activate_linear, dropout_factors,
    linear, linear_cross_entropy, normalize, recurrent, select_rows,
};
use crate::harness::deferred_gradients::GradientSlot;
use crate::paths::Operation;

/// The operations of layers. Each default body runs the backend's kernel, or else the definition.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "cubecl-backend"),
    Remote: cfg(feature = "remote"),
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(feature = "fusion"),
)]
pub trait LayerOps: LayerBackend {
    /// `input weight + bias`
    #[fusion(default)]
    fn linear(#[extension_type] inputs: LinearInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::LAYERS.linear;
        match Self::LAYERS.which::<Self, _>(Operation::Linear, kernel, &inputs.input) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => linear::composed::forward(inputs),
        }
    }

    /// `table[indices]`
    #[fusion(default)]
    fn select_rows(#[extension_type] inputs: SelectRowsInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::LAYERS.select_rows;
        match Self::LAYERS.which::<Self, _>(Operation::SelectRows, kernel, &inputs.table) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => select_rows::composed(inputs),
        }
    }

    /// `f(input)`, or `f(input) * factor`
    #[fusion(default)]
    fn activate(#[extension_type] inputs: ActivateInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::LAYERS.activate;
        match Self::LAYERS.which::<Self, _>(Operation::Activate, kernel, &inputs.input) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => activate::composed::forward(inputs),
        }
    }

    /// `f(input) weight + bias`, or `(f(input) * factor) weight + bias`
    #[fusion(default)]
    fn activate_linear(#[extension_type] inputs: ActivateLinearInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::LAYERS.activate_linear;
        match Self::LAYERS.which::<Self, _>(Operation::ActivateLinear, kernel, &inputs.input) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => activate_linear::composed::forward(inputs),
        }
    }

    /// `(input - mean) / sqrt(variance + epsilon) * gain + bias` of each row, or by its root mean square.
    #[fusion(default)]
    fn normalize(#[extension_type] inputs: NormalizeInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::LAYERS.normalize;
        match Self::LAYERS.which::<Self, _>(Operation::Normalize, kernel, &inputs.input) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => normalize::composed::forward(inputs).0,
        }
    }

    /// Factors of dropout: 0 with probability `p`, else `1 / (1 - p)`. They have no gradient.
    #[fusion(default)]
    fn dropout_factors(#[extension_type] inputs: DropoutFactorsInputs<Self>) -> FloatTensor<Self> {
        let draw = Self::LAYERS.dropout_factors;
        match Self::LAYERS.which::<Self, _>(Operation::DropoutFactors, draw, &inputs.like) {
            Some(draw) => draw(inputs),
            None => dropout_factors::composed(inputs),
        }
    }

    /// A linear layer to classes with its cross-entropy: the loss, `[1]`, and the greatest class of each row, `[rows]`,
    /// which has no gradient.
    #[fusion(default)]
    fn linear_cross_entropy(
        #[extension_type] inputs: LinearCrossEntropyInputs<Self>,
    ) -> (FloatTensor<Self>, IntTensor<Self>) {
        let (kernel, operation) = (
            Self::LAYERS.linear_cross_entropy,
            Operation::LinearCrossEntropy,
        );
        match Self::LAYERS.which::<Self, _>(operation, kernel, &inputs.input) {
            Some(kernel) => (kernel.infer)(inputs),
            None => linear_cross_entropy::composed::forward(inputs),
        }
    }

    /// A recurrent layer in one direction: the states after each step.
    #[fusion(default)]
    fn recurrent(#[extension_type] inputs: RecurrentInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::LAYERS.recurrent;
        match Self::LAYERS.which::<Self, _>(Operation::Recurrent, kernel, &inputs.gates) {
            Some(kernel) => (kernel.infer)(inputs),
            None => recurrent::steps::composed(inputs),
        }
    }

    /// One of the states that [`recurrent`](Self::recurrent) made, `[1, batch, steps, hidden_size]`, after each step
    /// or after the last alone. In training its gradient may be deposited in `slot`.
    #[fusion(default)]
    fn read_state(
        states: FloatTensor<Self>,
        index: usize,
        steps: StepsRead,
        _slot: GradientSlot,
    ) -> FloatTensor<Self> {
        recurrent::states::read::<Self>(states, index, steps)
    }

    /// `rows` for one reader of several. In training its gradient goes to `source`: `rows` is a view of it in another
    /// shape, or a copy with padding cleared. The gradient may be made from readers' deposits in `slot`.
    #[fusion(default)]
    fn read_shared(
        _source: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        _slot: GradientSlot,
    ) -> FloatTensor<Self> {
        rows
    }
}
