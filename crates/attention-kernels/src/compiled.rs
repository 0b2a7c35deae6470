//! The kernels, compiled for `f32` and, with the feature `f64`, for `f64`.

use cpu_kernels::{Buffer, Level, Real};

use crate::additive::location::{self, LocationScoreGradients, LocationScoreInputs};
use crate::additive::score::{self, AdditiveScoreGradients, AdditiveScoreInputs};
use crate::additive::{AdditiveScore, decode};
use crate::dot::DotProductScore;
use crate::pairwise::Dispatched;
use crate::stream::{self, Attention, AttentionGradients, AttentionOutputs, LogSumExp};
use crate::{Mask, Rotation, Rows, deferred, rotate, softmax};

/// `f32` or `f64`, with the kernels of attention compiled for it; without the feature `f64`, those in `f64` panic.
#[allow(
    private_bounds,
    reason = "sealed: the kernels are compiled for these two types"
)]
pub trait AttentionReal: Real + Compiled + Dispatched {}

impl AttentionReal for f32 {}
impl AttentionReal for f64 {}

cpu_kernels::compiled! {
    fn score_forward(inputs: &AdditiveScoreInputs<Self>, level: Level, scores: &mut [Self]) = score::forward;
    #[gradient]
    fn score_backward(
        inputs: &AdditiveScoreInputs<Self>,
        level: Level,
        score_gradients: Rows<Self>,
        gradients: AdditiveScoreGradients<Self>,
    ) = score::backward;
    fn packed_keys(keys: Rows<Self>, mask: Mask, num_queries: usize, level: Level) -> Buffer<Self> = score::packed_keys;
    fn location_forward(inputs: &LocationScoreInputs<Self>, level: Level, scores: &mut [Self]) = location::forward;
    #[gradient]
    fn location_backward(
        inputs: &LocationScoreInputs<Self>,
        level: Level,
        score_gradients: Rows<Self>,
        gradients: LocationScoreGradients<Self>,
    ) = location::backward;
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
    #[gradient]
    fn additive_backward(
        level: Level,
        attention: &Attention<Self, AdditiveScore<Self>>,
        outputs: &AttentionOutputs<Self>,
        gradients: AttentionGradients<Self>,
    ) = stream::backward;
    fn dot_product_forward(
        level: Level,
        attention: &Attention<Self, DotProductScore<Self>>,
        context: &mut [Self],
        lse: &mut [LogSumExp],
    ) = stream::forward;
    #[gradient]
    fn dot_product_backward(
        level: Level,
        attention: &Attention<Self, DotProductScore<Self>>,
        outputs: &AttentionOutputs<Self>,
        gradients: AttentionGradients<Self>,
    ) = stream::backward;
    #[gradient]
    fn accumulate_deferred(
        level: Level,
        factor: Self,
        pairs: &[Self],
        rows: Rows<Self>,
        to: &mut [Self],
    ) = deferred::accumulate;
    fn rotate(
        level: Level,
        rotation: &Rotation<Self>,
        direction: Self,
        rows: Rows<Self>,
        to: &mut [Self],
    ) = rotate::rotate;
    fn masked_softmax(level: Level, mask: &Mask, scores: Rows<Self>, weights: &mut [Self]) = softmax::forward;
    #[gradient]
    fn masked_softmax_backward(
        level: Level,
        weights: Rows<Self>,
        gradient: Rows<Self>,
        score_gradients: &mut [Self],
    ) = softmax::backward;
}
