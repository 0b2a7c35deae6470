//! The kernels of each type of number, compiled here: a generic function would be compiled again, for every
//! instruction set, in each crate that calls it.

use super::range::Bounds;
use super::{
    AdditiveAttention, AdditiveAttentionGradients, AdditiveGradients, AdditiveScore, AdditiveStep,
};
use super::{attention, score};
use crate::simd::Level;
use crate::{Mask, Rows};

/// What [`AdditiveScore`] and [`AdditiveAttention`] call.
pub(crate) trait AdditiveKernels: Sized {
    const BOUNDS: Bounds;

    fn score_forward(problem: &AdditiveScore<Self>, level: Level, scores: &mut [Self]);

    fn score_backward(
        problem: &AdditiveScore<Self>,
        level: Level,
        grad: Rows<Self>,
        gradients: AdditiveGradients<Self>,
    );

    fn score_backward_keys(
        problem: &AdditiveScore<Self>,
        level: Level,
        grad: Rows<Self>,
        keys: &mut [Self],
    );

    fn pack(keys: &Rows<Self>, mask: &Mask, num_queries: usize, level: Level) -> Vec<Self>;

    fn attention_forward(
        problem: &AdditiveAttention<Self>,
        level: Level,
        context: &mut [Self],
        lse: &mut [Self],
    );

    fn attention_backward(
        problem: &AdditiveAttention<Self>,
        level: Level,
        context: Rows<Self>,
        lse: &[Self],
        context_gradient: Rows<Self>,
        gradients: AdditiveAttentionGradients<Self>,
    );

    fn attention_backward_step(
        problem: &AdditiveAttention<Self>,
        level: Level,
        context_gradient: Rows<Self>,
        step: AdditiveStep<Self>,
    );
}

macro_rules! additive_kernels {
    ($type:ident, $bounds:expr) => {
        impl AdditiveKernels for $type {
            const BOUNDS: Bounds = $bounds;

            fn score_forward(problem: &AdditiveScore<Self>, level: Level, scores: &mut [Self]) {
                score::forward(problem, level, scores);
            }

            fn score_backward(
                problem: &AdditiveScore<Self>,
                level: Level,
                grad: Rows<Self>,
                gradients: AdditiveGradients<Self>,
            ) {
                score::backward(problem, level, grad, gradients);
            }

            fn score_backward_keys(
                problem: &AdditiveScore<Self>,
                level: Level,
                grad: Rows<Self>,
                keys: &mut [Self],
            ) {
                score::backward_keys(problem, level, grad, keys);
            }

            fn pack(keys: &Rows<Self>, mask: &Mask, num_queries: usize, level: Level) -> Vec<Self> {
                score::pack_all(keys, mask, num_queries, level)
            }

            fn attention_forward(
                problem: &AdditiveAttention<Self>,
                level: Level,
                context: &mut [Self],
                lse: &mut [Self],
            ) {
                attention::forward(problem, level, context, lse);
            }

            fn attention_backward(
                problem: &AdditiveAttention<Self>,
                level: Level,
                context: Rows<Self>,
                lse: &[Self],
                context_gradient: Rows<Self>,
                gradients: AdditiveAttentionGradients<Self>,
            ) {
                attention::backward(problem, level, context, lse, context_gradient, gradients);
            }

            fn attention_backward_step(
                problem: &AdditiveAttention<Self>,
                level: Level,
                context_gradient: Rows<Self>,
                step: AdditiveStep<Self>,
            ) {
                attention::backward_step(problem, level, context_gradient, step);
            }
        }
    };
}

additive_kernels!(f32, Bounds::F32);
additive_kernels!(f64, Bounds::F64);
