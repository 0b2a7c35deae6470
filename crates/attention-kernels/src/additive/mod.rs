//! Additive scores: `score[i,j] = sum_u w[u] tanh(q[i,u] + k[j,u])`, without a `tanh` per term.
//!
//! With `a = e^(2q)` and `c = e^(2k)`, which depend on one side only,
//!
//! ```text
//! tanh(q + k) = 1 - 2 r,   r = 1 / (1 + a c)
//! score[i,j]  = -2 sum_u w[u] (r[i,j,u] - 1/2)
//! ```
//!
//! so that each term costs a multiply-add and a reciprocal. Two more steps make it cheaper:
//!
//! - The weight moves into the denominator. With `m = max |w|` and `d[u] = (m / w[u]) (1 + a c)`, each term is
//!   `w r = m / d`, where `(m / w) a` is made once per query and `d` is still one multiply-add.
//! - Two units share a reciprocal: `1/d1 + 1/d2 = (d1 + d2) / (d1 d2)`.
//!
//! Where the weights are large, in [`pack`], terms are `w tanh` instead, with `tanh = 1 - 1/x`, `x = (1 + a c) / 2`:
//! these are small where tanh is, and err little then.
//!
//! The product `d1 d2` must stay within `f32`, which bounds what one factor may be; see [`range`]. Elements outside
//! these bounds take slower evaluations; the last one takes `tanh` of `q + k` itself. A term depends on its own query,
//! key and weights alone: no key can change a bit of another key's score.

mod blocks;
pub(crate) mod decode;
mod exact;
mod gradient;
mod inputs;
mod pack;
mod panel;
mod range;
pub(crate) mod score;
mod stream;
mod tanh;
mod tile;

use cpu_kernels::simd::Level;

use crate::AttentionReal;
use crate::stream::{AttentionGradients, AttentionOutputs, LogSumExp};
pub(crate) use stream::AdditiveScore;

pub use inputs::AdditiveAttentionInputs;
pub use score::{AdditiveScoreGradients, AdditiveScoreInputs};

impl<'a, E: AttentionReal> AdditiveAttentionInputs<'a, E> {
    /// Writes the context and the logarithm of the sum of `e^score` of each query, which the backward pass needs.
    ///
    /// A query that attends to no key has context 0. The number of threads changes no bit.
    ///
    /// # Shapes
    /// - context `[batch, heads, queries, value_size]`
    /// - lse `[batch, heads, queries]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, context: &mut [E], lse: &mut [LogSumExp]) {
        let score = AdditiveScore::new(self);
        E::additive_forward(level, &self.attention(&score), context, lse);
    }

    /// As [`forward`](Self::forward), for a step of [decoding](Self::is_decode) that is to be trained: writes the
    /// weights before dropout, too, 0 where masked, for [`AttentionOutputs::weights`]. The backward pass does not
    /// compute the scores again then, with the same bits.
    ///
    /// # Shapes
    /// - weights `[batch, heads, queries, keys]`
    ///
    /// # Panics
    /// If this is not [decoding](Self::is_decode) or the shapes do not fit together.
    pub fn forward_saving(
        &self,
        level: Level,
        context: &mut [E],
        lse: &mut [LogSumExp],
        weights: &mut [E],
    ) {
        let score = AdditiveScore::new(self);
        E::additive_decode(level, &self.attention(&score), context, lse, weights);
    }

    /// Adds the gradients that are wanted to `gradients`; `outputs` has what [`forward`](Self::forward) wrote for the
    /// same inputs.
    ///
    /// Where a query attends to no key all gradients are 0, whatever the gradient of the context holds. No bit depends
    /// on which gradients are wanted, or on the number of threads.
    ///
    /// # Panics
    /// If the shapes do not fit together, or gradients are deferred and this is not [decoding](Self::is_decode).
    pub fn backward(
        &self,
        level: Level,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    ) {
        let score = AdditiveScore::new(self);
        E::additive_backward(level, &self.attention(&score), outputs, gradients);
    }
}
