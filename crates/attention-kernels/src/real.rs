//! `f32` and `f64`, with the kernels compiled for them.

use crate::additive::{AdditiveScore, decode, score};
use crate::buffer::Pooled;
use crate::dot::DotProductScore;
use crate::simd::{Float, Level};
use crate::stream::{Attention, Gradients, LogSumExp};
use crate::{
    AdditiveScoreGradients, AdditiveScoreInputs, AttentionOutputs, Buffer, CrossEntropyGradients,
    CrossEntropyInputs, GruInputs, LstmInputs, Mask, Matrix, Packing, ProductStart,
    RecurrentGradients, RecurrentOutputs, Rows, cross_entropy, deferred, product, recurrent,
    softmax, stream,
};

/// `f32` or `f64`, with the kernels compiled for it.
#[allow(
    private_bounds,
    reason = "sealed: the kernels are compiled for these two types"
)]
pub trait Real: Float + Compiled + Pooled {}

impl Real for f32 {}
impl Real for f64 {}

/// Declares the entry points of the kernels and compiles them for `f32` and `f64`.
macro_rules! compiled {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? = $kernel:path;)*) => {
        /// The entry points of the kernels.
        ///
        /// Its only purpose is to have them compiled here. A generic function would be compiled again, for each
        /// instruction set and in dev builds without optimisation, in every crate that calls it.
        pub(crate) trait Compiled: Sized {
            $(fn $name($($argument: $type),*) $(-> $output)?;)*
        }

        compiled!(impl f32 { $(fn $name($($argument: $type),*) $(-> $output)? = $kernel;)* });
        compiled!(impl f64 { $(fn $name($($argument: $type),*) $(-> $output)? = $kernel;)* });
    };
    (impl $float:ident { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? = $kernel:path;)* }) => {
        impl Compiled for $float {
            $(fn $name($($argument: $type),*) $(-> $output)? {
                $kernel($($argument),*)
            })*
        }
    };
}

compiled! {
    fn score_forward(inputs: &AdditiveScoreInputs<Self>, level: Level, scores: &mut [Self]) = score::forward;
    fn score_backward(
        inputs: &AdditiveScoreInputs<Self>,
        level: Level,
        score_gradients: Rows<Self>,
        gradients: AdditiveScoreGradients<Self>,
    ) = score::backward;
    fn score_backward_keys(
        inputs: &AdditiveScoreInputs<Self>,
        level: Level,
        score_gradients: Rows<Self>,
        keys: &mut [Self],
    ) = score::backward_keys;
    fn packed_keys(keys: Rows<Self>, mask: Mask, num_queries: usize, level: Level) -> Buffer<Self> = score::packed_keys;
    fn additive_forward(
        level: Level,
        attention: &Attention<Self, AdditiveScore<Self>>,
        context: &mut [Self],
        lse: &mut [LogSumExp],
    ) = stream::forward;
    fn additive_decode(
        level: Level,
        attention: &Attention<Self, AdditiveScore<Self>>,
        context: &mut [Self],
        lse: &mut [LogSumExp],
        weights: &mut [Self],
    ) = decode::forward_saving;
    fn additive_backward(
        level: Level,
        attention: &Attention<Self, AdditiveScore<Self>>,
        outputs: &AttentionOutputs<Self>,
        gradients: Gradients<Self>,
    ) = stream::backward;
    fn dot_product_forward(
        level: Level,
        attention: &Attention<Self, DotProductScore<Self>>,
        context: &mut [Self],
        lse: &mut [LogSumExp],
    ) = stream::forward;
    fn dot_product_backward(
        level: Level,
        attention: &Attention<Self, DotProductScore<Self>>,
        outputs: &AttentionOutputs<Self>,
        gradients: Gradients<Self>,
    ) = stream::backward;
    fn accumulate_deferred(
        level: Level,
        factor: Self,
        pairs: &[Self],
        rows: Rows<Self>,
        to: &mut [Self],
    ) = deferred::accumulate;
    fn product(
        level: Level,
        left: &[Matrix<Self>],
        right: &[Matrix<Self>],
        packing: Option<&Packing<Self>>,
        start: ProductStart<Self>,
        out: &mut [Self],
    ) = product::compute;
    fn column_sums(matrix: &[Self], sums: &mut [Self]) = product::compute_column_sums;
    fn gru_forward(
        inputs: &GruInputs<Self>,
        level: Level,
        gates: recurrent::Gates<Self>,
        states: &mut [Self],
    ) = recurrent::forward::<Self, recurrent::Gru, _, _>;
    fn gru_backward(
        inputs: &GruInputs<Self>,
        level: Level,
        outputs: &RecurrentOutputs<Self, 1>,
        gradients: RecurrentGradients<Self>,
    ) = recurrent::backward::<Self, recurrent::Gru, _, _>;
    fn lstm_forward(
        inputs: &LstmInputs<Self>,
        level: Level,
        gates: recurrent::Gates<Self>,
        states: &mut [Self],
    ) = recurrent::forward::<Self, recurrent::Lstm, _, _>;
    fn lstm_backward(
        inputs: &LstmInputs<Self>,
        level: Level,
        outputs: &RecurrentOutputs<Self, 2>,
        gradients: RecurrentGradients<Self>,
    ) = recurrent::backward::<Self, recurrent::Lstm, _, _>;
    fn cross_entropy(
        inputs: &CrossEntropyInputs<Self>,
        level: Level,
        predictions: &mut [usize],
        gradients: Option<CrossEntropyGradients<Self>>,
    ) -> f64 = cross_entropy::compute;
    fn masked_softmax(level: Level, mask: &Mask, scores: Rows<Self>, weights: &mut [Self]) = softmax::forward;
    fn masked_softmax_backward(
        level: Level,
        weights: Rows<Self>,
        gradient: Rows<Self>,
        score_gradients: &mut [Self],
    ) = softmax::backward;
}
