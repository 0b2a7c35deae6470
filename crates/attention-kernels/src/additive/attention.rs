//! Additive attention straight to the context, without `[queries, keys]` in memory.

use super::few;
use super::pack::{Weights, packed_block_len};
use super::stream::Streamed;
use super::{AdditiveScore, BLOCK};
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
        context: &[E],
        lse: &[E],
        context_gradient: Rows<E>,
        gradients: AdditiveAttentionGradients<E>,
    ) {
        E::attention_backward(self, level, context, lse, context_gradient, gradients);
    }

    /// Whether there are so few queries that packing keys and values for them is not worth it. The streaming kernels
    /// report what does not fit and take what has a size of 0.
    fn is_few(&self, context_len: usize, lse_len: usize) -> bool {
        let [batch, heads, num_queries, units] = self.score.queries.shape();
        let [_, _, num_keys, _] = self.score.keys.shape();
        let [.., value_size] = self.values.shape();
        let rows = batch * heads * num_queries;
        num_queries <= few::FEW
            && rows * num_keys * units * value_size > 0
            && self.values.shape() == [batch, heads, num_keys, value_size]
            && [context_len, lse_len] == [rows * value_size, rows]
    }

    fn check_gradients(&self, context: &Rows<E>, gradients: &AdditiveAttentionGradients<E>) {
        let [batch, heads, num_queries, units] = self.score.queries.shape();
        let [_, _, num_keys, value_size] = self.values.shape();
        let heads_in_all = batch * heads;
        let lens = [
            (
                "queries",
                gradients.queries.len(),
                heads_in_all * num_queries * units,
            ),
            (
                "keys",
                gradients.keys.len(),
                heads_in_all * num_keys * units,
            ),
            (
                "values",
                gradients.values.len(),
                heads_in_all * num_keys * value_size,
            ),
            ("weight", gradients.weight.len(), units),
        ];
        for (name, found, expected) in lens {
            assert!(
                found == expected,
                "AdditiveAttention: gradient of {name} expected {expected} numbers, got {found}"
            );
        }
        let expected = [batch, heads, num_queries, value_size];
        let found = context.shape();
        assert!(
            found == expected,
            "AdditiveAttention: gradient of the context expected {expected:?}, got {found:?}"
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
    context: &[E],
    lse: &[E],
    context_gradient: Rows<E>,
    gradients: AdditiveAttentionGradients<E>,
) {
    let score = problem.streamed();
    if problem.is_few(context.len(), lse.len()) {
        problem.check_gradients(&context_gradient, &gradients);
        few::backward(problem, &score.weights, level, context_gradient, gradients);
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
