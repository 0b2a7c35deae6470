//! Inputs and gradients of the kernels of the score.

use cpu_kernels::Real;
use cpu_kernels::checks::check_shape;

use crate::heads::Heads;
use crate::{Mask, Rows};

/// Additive scores to compute, `score[b,h,i,j] = sum_u weight[u] tanh(queries[b,h,i,u] + keys[b,n,j,u])`, and 0 for
/// masked pairs.
///
/// Heads may share key heads: head `h` attends to the key head `n = h * key_heads / heads`.
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate".
///
/// # Shapes
/// - queries `[batch, heads, queries, units]`
/// - keys `[batch, key_heads, keys, units]`
/// - weight `[units]`
#[derive(Clone, Copy, Debug)]
pub struct AdditiveScoreInputs<'a, E> {
    /// Queries, projected to the hidden units.
    pub queries: Rows<'a, E>,
    /// Keys, projected to the hidden units.
    pub keys: Rows<'a, E>,
    /// The weight of each hidden unit; beyond a third of the largest element, scores may overflow.
    pub weight: &'a [E],
    /// Which keys each query attends to.
    pub mask: Mask<'a>,
}

/// The requested gradients, to which [`AdditiveScoreInputs::backward`] adds; contiguous.
#[derive(Debug)]
pub struct AdditiveScoreGradients<'a, E> {
    /// `[batch, heads, queries, units]`
    pub queries: Option<&'a mut [E]>,
    /// `[batch, key_heads, keys, units]`
    pub keys: Option<&'a mut [E]>,
    /// `[units]`
    pub weight: Option<&'a mut [E]>,
}

pub(super) const OPERATION: &str = "additive score";

impl<E: Real> AdditiveScoreInputs<'_, E> {
    /// # Panics
    /// If the shapes of queries, keys and weight do not fit together.
    pub(in crate::additive) fn check(&self, operation: &str) -> Heads {
        let heads = Heads::of(operation, self.queries.shape(), self.keys.shape());
        let [.., units] = self.queries.shape();
        check_shape(operation, "weight", [units], [self.weight.len()]);
        heads
    }
}
