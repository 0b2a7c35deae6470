//! Additive scores of all pairs, `[batch, heads, queries, keys]`.

mod backward;
mod forward;

pub(super) use backward::{backward, backward_keys};
pub(super) use forward::{forward, pack_all};

use crate::simd::{Level, Real};
use crate::{Mask, Rows};

/// Additive scores to compute, `score[b,n,i,j] = sum_u weight[u] tanh(queries[b,n,i,u] + keys[b,n,j,u])`, and 0 for
/// pairs that the mask hides.
///
/// # Shapes
/// - queries `[batch, heads, queries, units]`, keys `[batch, heads, keys, units]`, weight `[units]`
#[derive(Clone, Copy, Debug)]
pub struct AdditiveScore<'a, E> {
    /// Queries, projected to the hidden units.
    pub queries: Rows<'a, E>,
    /// Keys, projected to the hidden units.
    pub keys: Rows<'a, E>,
    /// The weight of each hidden unit; beyond a third of the largest number, scores may overflow.
    pub weight: &'a [E],
    /// Which keys each query sees.
    pub mask: Mask<'a>,
}

/// Where the gradients of [`AdditiveScore`] are added to; contiguous.
#[derive(Debug)]
pub struct AdditiveGradients<'a, E> {
    /// `[batch, heads, queries, units]`
    pub queries: &'a mut [E],
    /// `[batch, heads, keys, units]`
    pub keys: &'a mut [E],
    /// `[units]`
    pub weight: &'a mut [E],
}

impl<'a, E: Real> AdditiveScore<'a, E> {
    /// # Panics
    /// If the shapes do not fit together.
    pub(crate) fn check(&self) {
        let [batch, heads, _, units] = self.queries.shape();
        let [_, _, num_keys, _] = self.keys.shape();
        let expected = [batch, heads, num_keys, units];
        let found = self.keys.shape();
        assert!(
            found == expected,
            "AdditiveScore: keys expected {expected:?}, got {found:?}"
        );
        assert!(
            self.weight.len() == units,
            "AdditiveScore: weight expected [{units}], got [{}]",
            self.weight.len()
        );
        let [_, _, num_queries, _] = self.queries.shape();
        self.mask.check([batch, heads, num_queries, num_keys]);
    }

    /// Computes the scores.
    ///
    /// # Shapes
    /// - scores `[batch, heads, queries, keys]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, scores: &mut [E]) {
        E::score_forward(self, level, scores);
    }

    /// Adds the gradients of the scores to `gradients`, where `grad` is the gradient of the result. What it holds for
    /// hidden pairs does not matter.
    ///
    /// # Shapes
    /// - grad `[batch, heads, queries, keys]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(&self, level: Level, grad: Rows<E>, gradients: AdditiveGradients<E>) {
        E::score_backward(self, level, grad, gradients);
    }

    /// As [`backward`](Self::backward), of the keys alone.
    ///
    /// # Shapes
    /// - grad `[batch, heads, queries, keys]`
    /// - keys `[batch, heads, keys, units]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward_keys(&self, level: Level, grad: Rows<E>, keys: &mut [E]) {
        E::score_backward_keys(self, level, grad, keys);
    }
}
