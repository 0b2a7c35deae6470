//! Additive attention straight to the context, without `[queries, keys]` in memory.

use super::few;
use super::pack::{Weights, packed_block_len};
use super::stream::Streamed;
use super::{AdditiveScore, BLOCK, check_lens};
use crate::pairs::Pairs;
use crate::simd::{Level, Real};
use crate::stream::{self, Attention, Gradients, Outputs};
use crate::{Dropout, Mask, Rows};

/// Additive attention: `softmax(score) V` over the keys that each query sees, with the scores of [`AdditiveScore`].
///
/// # Shapes
/// - values `[batch, heads, keys, value_size]`
#[derive(Clone, Copy, Debug)]
pub struct AdditiveAttention<'a, E> {
    /// Queries, keys, weight and mask.
    pub score: AdditiveScore<'a, E>,
    /// What the weights are applied to.
    pub values: Rows<'a, E>,
    /// The keys as [`AdditiveScore::packed_keys`] returned them, if they were packed before.
    pub packed_keys: Option<&'a [E]>,
    /// Of the weights.
    pub dropout: Option<Dropout>,
}

/// Where the gradients of [`AdditiveAttention`] are added to; contiguous.
#[derive(Debug)]
pub struct AdditiveAttentionGradients<'a, E> {
    /// `[batch, heads, queries, units]`
    pub queries: &'a mut [E],
    /// `[batch, heads, keys, units]`
    pub keys: &'a mut [E],
    /// `[batch, heads, keys, value_size]`
    pub values: &'a mut [E],
    /// `[units]`
    pub weight: &'a mut [E],
}

/// The gradients of a decoder's step, see [`AdditiveAttention::backward_step`]; contiguous.
#[derive(Debug)]
pub struct AdditiveStep<'a, E> {
    /// Added to, `[batch, heads, queries, units]`.
    pub queries: &'a mut [E],
    /// Added to, `[units]`.
    pub weight: &'a mut [E],
    /// The gradients of the scores, written where a query sees a key, `[batch, heads, queries, keys]`.
    pub scores: &'a mut [E],
    /// The weights after dropout, written where a query sees a key, `[batch, heads, queries, keys]`.
    pub weights: &'a mut [E],
}

impl<'a, E: Real> AdditiveScore<'a, E> {
    /// The shape of what [`packed_keys`](Self::packed_keys) returns, for keys `[batch, heads, keys, units]`.
    pub fn packed_shape(keys: [usize; 4]) -> [usize; 4] {
        let [batch, heads, num_keys, units] = keys;
        let numbers = num_keys.div_ceil(BLOCK) * packed_block_len(units);
        [batch, heads, numbers / BLOCK, BLOCK]
    }

    /// The keys as the forward kernel reads them: exponentiated, in blocks, transposed. For keys that many calls will
    /// visit; neither queries nor weight matter, but the number of queries, which the mask is about.
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn packed_keys(
        keys: Rows<'a, E>,
        mask: Mask<'a>,
        num_queries: usize,
        level: Level,
    ) -> Vec<E> {
        E::pack(&keys, &mask, num_queries, level)
    }
}

impl<E: Real> AdditiveAttention<'_, E> {
    /// Writes the context and the logarithm of the sum of `e^score` of each query, which the backward pass needs.
    ///
    /// A query that sees no key has context 0 and log-sum-exp minus infinity.
    ///
    /// # Shapes
    /// - context `[batch, heads, queries, value_size]`, lse `[batch, heads, queries]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, context: &mut [E], lse: &mut [E]) {
        E::attention_forward(self, level, context, lse);
    }

    /// Adds the gradients to `gradients`; `context` and `lse` are what [`forward`](Self::forward) wrote.
    ///
    /// # Shapes
    /// - context, context_gradient `[batch, heads, queries, value_size]`, lse `[batch, heads, queries]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(
        &self,
        level: Level,
        context: Rows<E>,
        lse: &[E],
        context_gradient: Rows<E>,
        gradients: AdditiveAttentionGradients<E>,
    ) {
        E::attention_backward(self, level, context, lse, context_gradient, gradients);
    }

    /// The most queries of a [step](Self::is_step).
    pub const STEP_QUERIES: usize = few::FEW;

    /// Whether this is a step: some queries, but so few that packing keys and values for them is not worth it.
    pub fn is_step(&self) -> bool {
        let [batch, heads, num_queries, units] = self.score.queries.shape();
        let [_, _, num_keys, _] = self.score.keys.shape();
        let [.., value_size] = self.values.shape();
        num_queries <= Self::STEP_QUERIES
            && batch * heads * num_queries * num_keys * units * value_size > 0
            && self.values.shape() == [batch, heads, num_keys, value_size]
    }

    /// As [`backward`](Self::backward), for one [step](Self::is_step) of many through the same keys and values: what
    /// their gradients are made of is written instead of added, so that all steps can be added at once, with their
    /// queries side by side: [`AdditiveScore::backward_keys`] of `scores` for the keys, [`add_pairs`](crate::add_pairs)
    /// of `weights` and the gradients of the contexts for the values.
    ///
    /// # Shapes
    /// - context_gradient `[batch, heads, queries, value_size]`
    ///
    /// # Panics
    /// If this is no step or the shapes do not fit together.
    pub fn backward_step(&self, level: Level, context_gradient: Rows<E>, step: AdditiveStep<E>) {
        E::attention_backward_step(self, level, context_gradient, step);
    }

    /// Whether this is a step with outputs that fit. The streaming kernels report what does not, and take what has a
    /// size of 0.
    fn is_few(&self, context_len: usize, lse_len: usize) -> bool {
        let [batch, heads, num_queries, value_size] = self.context_shape();
        let rows = batch * heads * num_queries;
        self.is_step() && [context_len, lse_len] == [rows * value_size, rows]
    }

    fn context_shape(&self) -> [usize; 4] {
        let [batch, heads, num_queries, _] = self.score.queries.shape();
        let [.., value_size] = self.values.shape();
        [batch, heads, num_queries, value_size]
    }

    fn check_context(&self, name: &str, context: &Rows<E>) {
        let expected = self.context_shape();
        let found = context.shape();
        assert!(
            found == expected,
            "AdditiveAttention: {name} expected {expected:?}, got {found:?}"
        );
    }

    fn streamed(&self) -> Streamed<'_, E> {
        self.score.check();
        if let Some(packed) = self.packed_keys {
            let expected = AdditiveScore::<E>::packed_shape(self.score.keys.shape());
            assert!(
                packed.len() == expected.iter().product::<usize>(),
                "AdditiveAttention: packed keys expected {expected:?}, got {} numbers",
                packed.len()
            );
        }
        Streamed {
            score: self.score,
            weights: Weights::new(self.score.weight),
            packed: self.packed_keys,
        }
    }

    fn attention<'b>(&'b self, score: &'b Streamed<'b, E>) -> Attention<'b, E, Streamed<'b, E>> {
        Attention {
            score,
            values: self.values,
            bias: None,
            mask: &self.score.mask,
            dropout: self.dropout,
        }
    }
}

pub(super) fn forward<E: Real>(
    problem: &AdditiveAttention<E>,
    level: Level,
    context: &mut [E],
    lse: &mut [E],
) {
    let score = problem.streamed();
    match problem.is_few(context.len(), lse.len()) {
        true => few::forward(problem, &score.weights, level, context, lse),
        false => stream::forward(level, &problem.attention(&score), context, lse),
    }
}

pub(super) fn backward<E: Real>(
    problem: &AdditiveAttention<E>,
    level: Level,
    context: Rows<E>,
    lse: &[E],
    context_gradient: Rows<E>,
    gradients: AdditiveAttentionGradients<E>,
) {
    let score = problem.streamed();
    let context_len = context.shape().iter().product();
    if problem.is_few(context_len, lse.len()) {
        let AdditiveAttentionGradients {
            queries,
            keys,
            values,
            weight,
        } = gradients;
        let of = |shape: [usize; 4]| shape.iter().product::<usize>();
        check_lens(
            "AdditiveAttention",
            [
                ("queries", queries.len(), of(problem.score.queries.shape())),
                ("keys", keys.len(), of(problem.score.keys.shape())),
                ("values", values.len(), of(problem.values.shape())),
                ("weight", weight.len(), problem.score.weight.len()),
            ],
        );
        problem.check_context("context", &context);
        problem.check_context("gradient of the context", &context_gradient);
        let pairs = Pairs::Add { keys, values };
        few::backward(
            problem,
            &score.weights,
            level,
            context_gradient,
            queries,
            weight,
            pairs,
        );
        return;
    }
    let outputs = Outputs {
        context,
        lse,
        context_gradient,
    };
    let gradients = Gradients {
        queries: gradients.queries,
        keys: gradients.keys,
        values: gradients.values,
        bias: &mut [],
        shared: gradients.weight,
    };
    stream::backward(level, &problem.attention(&score), &outputs, gradients);
}

pub(super) fn backward_step<E: Real>(
    problem: &AdditiveAttention<E>,
    level: Level,
    context_gradient: Rows<E>,
    step: AdditiveStep<E>,
) {
    assert!(
        problem.is_step(),
        "AdditiveAttention: a step expected 1 to {} queries, and keys and values, got queries {:?}, keys {:?}, values \
         {:?}",
        few::FEW,
        problem.score.queries.shape(),
        problem.score.keys.shape(),
        problem.values.shape()
    );
    let score = problem.streamed();
    problem.check_context("gradient of the context", &context_gradient);
    let [batch, heads, num_queries, units] = problem.score.queries.shape();
    let [_, _, num_keys, _] = problem.values.shape();
    let rows = batch * heads * num_queries;
    let AdditiveStep {
        queries,
        weight,
        scores,
        weights,
    } = step;
    check_lens(
        "AdditiveAttention",
        [
            ("queries", queries.len(), rows * units),
            ("weight", weight.len(), units),
            ("scores", scores.len(), rows * num_keys),
            ("weights", weights.len(), rows * num_keys),
        ],
    );
    let pairs = Pairs::Keep { scores, weights };
    few::backward(
        problem,
        &score.weights,
        level,
        context_gradient,
        queries,
        weight,
        pairs,
    );
}
