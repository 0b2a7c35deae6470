//! Scores of the user's own: `score[i,j] = sum_u w[u] f(q[i,u], k[j,u])`, without the terms of pairs in memory.
//!
//! To use a formula `f`, implement [`PairwiseTerm`]: its value and its two derivatives, for a vector of lanes. The
//! streaming kernels do the rest. They are compiled for each instruction set in the crate that names the term, where it
//! becomes a [`PairwiseKernel`]; unoptimised they are slow, so that a crate with terms wants `opt-level = 3` in its dev
//! profile, too.
//!
//! With `g = d loss / d score`:
//!
//! ```text
//! dq[i,u] = w[u] sum_j g df/dq     dk[j,u] = w[u] sum_i g df/dk     dw[u] = sum_ij g f
//! ```

mod gradient;
mod kernel;
mod score;
mod tile;

pub use kernel::PairwiseKernel;
pub(crate) use kernel::{Dispatched, Pass};

use std::fmt::Debug;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

/// One unit's term of a pairwise score, `f(q, k)`, for a vector of queries and one of keys.
///
/// Both methods are `#[inline(always)]`, call nothing that is not, and may be given any number, infinities and NaN
/// included: what they make of these reaches only the pair that has them. They depend on their arguments alone.
///
/// ```
/// use attention_kernels::{PairwiseTerm, Real, Simd};
///
/// /// `max(x, slope x)` of `x = q + k`, for a slope in `[0, 1]`: the score of GATv2, Brody et al. 2022.
/// #[derive(Debug)]
/// struct LeakyRelu {
///     slope: f64,
/// }
///
/// impl PairwiseTerm for LeakyRelu {
///     #[inline(always)]
///     fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
///         let sum = simd.add(query, key);
///         simd.max(sum, simd.mul(sum, simd.splat(E::from_f64(self.slope))))
///     }
///
///     #[inline(always)]
///     fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
///         let is_negative = simd.less(simd.add(query, key), simd.zero());
///         let slope = simd.splat(E::from_f64(self.slope));
///         let derivative = simd.select(is_negative, slope, simd.splat(E::ONE));
///         [derivative, derivative]
///     }
/// }
/// ```
pub trait PairwiseTerm: Debug + Send + Sync + 'static {
    /// `f(q, k)`
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V;

    /// `df/dq` and `df/dk`; at a kink, anything between the derivatives of its two sides.
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2];
}
