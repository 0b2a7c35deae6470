//! Additive scores with a location term, one query at a time: a step of location-sensitive attention.
//!
//! ```text
//! score[j] = sum_u weight[u] tanh(query[u] + key[j,u] + sum_ct filters[c,t,u] alignments[c, j + t - width/2])
//! ```
//!
//! A convolution without a bias and the linear layer after it make one filter for each channel and hidden unit. It
//! costs `channels width units` multiply-adds per key, and nothing of size `[keys, units]` leaves the cache.
//!
//! The sums over `c` and `t` are a matrix product, whose left operand has in row `j` the alignments from `j` on: both
//! of its strides are 1, so it is never materialised. The location, and `e^(2 (key + location))` with it, differs in
//! each step. So no exponentials can be precomputed, and tanh is taken of the whole sum.
//!
//! With `g = d loss / d score`, `t = tanh(..)` and `d[j,u] = g[j] weight[u] (1 - t^2)`, whose rows are recomputed for
//! some keys at a time:
//!
//! ```text
//! dquery[u] = sum_j d[j,u]      dkey[j,u] = d[j,u]      dweight[u] = sum_j g[j] t[j,u]
//! dfilters[c,t,u] = sum_j alignments[c, j + t - width/2] d[j,u]
//! dalignments[c, j + t - width/2] += sum_u d[j,u] filters[c,t,u]
//! ```

mod backward;
mod forward;
mod inputs;
mod sums;

pub(crate) use backward::backward;
pub(crate) use forward::forward;
pub use inputs::{LocationScoreGradients, LocationScoreInputs};

use cpu_kernels::simd::Level;

use crate::{AttentionReal, Rows};

impl<E: AttentionReal> LocationScoreInputs<'_, E> {
    /// Computes the scores; the scores of masked keys are 0.
    ///
    /// # Shapes
    /// - scores `[batch, keys]`, contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, scores: &mut [E]) {
        E::location_forward(self, level, scores);
    }

    /// Adds the requested gradients to `gradients`; `score_gradients` is the gradient of the scores, which is ignored
    /// at masked keys. The requested gradients and the number of threads change no bit of a result.
    ///
    /// # Shapes
    /// - score_gradients `[batch, 1, 1, keys]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(
        &self,
        level: Level,
        score_gradients: Rows<E>,
        gradients: LocationScoreGradients<E>,
    ) {
        E::location_backward(self, level, score_gradients, gradients);
    }
}
