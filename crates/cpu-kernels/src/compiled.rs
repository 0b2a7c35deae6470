//! The kernels, compiled for `f32` and, with the feature `f64`, for `f64`.

use crate::activate::{self, ActivationGradients, ActivationInputs};
use crate::cross_entropy::{self, CrossEntropyGradients, CrossEntropyInputs};
use crate::normalize::{self, NormalizationGradients, NormalizationInputs};
use crate::product::{self, Matrix, Packing, ProductStart};
use crate::real::Real;
use crate::recurrent::{
    self, Gates, Gru, GruInputs, Lstm, LstmInputs, RecurrentGradients, RecurrentOutputs,
};
use crate::simd::Level;

/// `f32` or `f64`, with the kernels of layers compiled for it: without the feature `f64`, those in `f64` panic.
#[allow(
    private_bounds,
    reason = "sealed: the kernels are compiled for these two types"
)]
pub trait LayerReal: Real + Compiled {}

impl LayerReal for f32 {}
impl LayerReal for f64 {}

crate::compiled! {
    fn product(
        level: Level,
        left: &[Matrix<Self>],
        right: &[Matrix<Self>],
        packing: Option<&Packing<Self>>,
        start: ProductStart<Self>,
        out: &mut [Self],
    ) = product::compute;
    fn column_sums(matrix: &[Self], sums: &mut [Self]) = product::sum_columns;
    fn gru_forward(
        inputs: &GruInputs<Self>,
        level: Level,
        gates: Gates<Self>,
        states: &mut [Self],
    ) = recurrent::forward::<Self, Gru, _, _>;
    #[gradient]
    fn gru_backward(
        inputs: &GruInputs<Self>,
        level: Level,
        outputs: &RecurrentOutputs<Self, 1>,
        gradients: RecurrentGradients<Self>,
    ) = recurrent::backward::<Self, Gru, _, _>;
    fn lstm_forward(
        inputs: &LstmInputs<Self>,
        level: Level,
        gates: Gates<Self>,
        states: &mut [Self],
    ) = recurrent::forward::<Self, Lstm, _, _>;
    #[gradient]
    fn lstm_backward(
        inputs: &LstmInputs<Self>,
        level: Level,
        outputs: &RecurrentOutputs<Self, 2>,
        gradients: RecurrentGradients<Self>,
    ) = recurrent::backward::<Self, Lstm, _, _>;
    fn cross_entropy(
        inputs: &CrossEntropyInputs<Self>,
        level: Level,
        predictions: &mut [usize],
        gradients: CrossEntropyGradients<Self>,
    ) -> f64 = cross_entropy::compute;
    fn activate(
        inputs: &ActivationInputs<Self>,
        level: Level,
        output: &mut [Self],
    ) = activate::forward;
    #[gradient]
    fn activate_backward(
        inputs: &ActivationInputs<Self>,
        level: Level,
        gradient: &[Self],
        gradients: ActivationGradients<Self>,
    ) = activate::backward;
    fn normalize(
        inputs: &NormalizationInputs<Self>,
        level: Level,
        output: &mut [Self],
        statistics: &mut [Self],
    ) = normalize::forward;
    #[gradient]
    fn normalize_backward(
        inputs: &NormalizationInputs<Self>,
        level: Level,
        statistics: &[Self],
        gradient: &[Self],
        gradients: NormalizationGradients<Self>,
    ) = normalize::backward;
}
