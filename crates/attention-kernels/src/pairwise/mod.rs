//! Scores of the user's own: `score[i,j] = sum_u w[u] f(q[i,u], k[j,u])`, without the terms of pairs in memory.
//!
//! To use a formula `f`, implement [`PairwiseTerm`]: its value and its two derivatives, for a vector of lanes. The
//! streaming kernels and, for few queries, the decoding kernels do the rest. They are compiled for each instruction set
//! in the crate that uses the term as a [`PairwiseKernel`]; unoptimised they are slow, so give such a crate `opt-level
//! = 3` in its dev profile, too.
//!
//! With `g = d loss / d score`:
//!
//! ```text
//! dq[i,u] = w[u] sum_j g df/dq     dk[j,u] = w[u] sum_i g df/dk     dw[u] = sum_ij g f
//! ```

mod gradient;
mod kernel;
mod row;
mod score;
mod tile;

pub use kernel::PairwiseKernel;
pub(crate) use kernel::{Dispatched, Pass};

use std::fmt::Debug;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

/// The term of one unit of a pairwise score, `f(q, k)`, for a vector of queries and a vector of keys.
///
/// Both methods must be `#[inline(always)]`, and call only such functions, and no closure: the one in `[a, b].map(..)`
/// may stay a call, which takes vectors through memory, several times as slow. They may get any number, infinities and
/// NaN included, whose results reach only their own pair. Results may depend on the arguments alone.
///
/// # Operations
/// Operations on each lane of vectors `S::V`, as methods of `simd`; `E` is `f32` or `f64`:
///
/// | constants | |
/// | --- | --- |
/// | `splat(x)` | `x`, an `E`: `E::ONE`, `E::INFINITY`, `E::from_f64(0.5)` |
/// | `zero()` | 0 |
/// | **arithmetic** | |
/// | `add(a, b)`, `sub(a, b)`, `mul(a, b)`, `neg(a)` | `a + b`, `a - b`, `a b`, `0 - a` |
/// | `mul_add(a, b, c)`, `neg_mul_add(a, b, c)` | `a b + c`, `c - a b` |
/// | `div(a, b)`, `reciprocal(b)` | `a / b`, `1 / b`; NaN is possible if `b` is 0 or infinite |
/// | `add_quotient(a, b, c)`, `add_reciprocal(b, c)` | `c + a / b`, `c + 1 / b`; NaN as for `div` |
/// | **comparison** | |
/// | `less(a, b)` | a mask, `S::M`: whether `a < b`; false for NaN |
/// | `select(mask, a, b)` | `a` where the mask holds, `b` elsewhere |
/// | `min(a, b)`, `max(a, b)` | the lesser, the greater; `b` if either is NaN |
/// | `abs(a)` | the magnitude |
/// | **functions** | |
/// | `sqrt(a)` | the square root |
/// | `exp(a)`, `exp2(a)` | `e^a`, and `2^a` for `a` of at most 127 |
/// | `tanh(a)`, `sigmoid(a)` | the hyperbolic tangent, `1 / (1 + e^-a)` |
/// | **places**, for [`VectorMod`](crate::VectorMod) | |
/// | `count_from(x)` | `x` in the first lane, `x + 1` in the next, and so on |
///
/// Functions and quotients are accurate to four units in the last place. Masks combine by `select`: `less(a, b)` and
/// `less(c, d)` are both true where `select(less(a, b), select(less(c, d), one, zero), zero)` is 1. There is no
/// logarithm. The other methods of [`Simd`] are for kernels: slices, neighbouring lanes and sums over lanes.
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
