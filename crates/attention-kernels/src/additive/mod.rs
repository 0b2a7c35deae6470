//! Additive scores: `score[i,j] = sum_u w[u] tanh(q[i,u] + k[j,u])`, without a `tanh` per term.
//!
//! With `a = e^(2q)` and `c = e^(2k)`, which depend on one side each,
//!
//! ```text
//! tanh(q + k) = 1 - 2 r,   r = 1 / (1 + a c)
//! score[i,j]  = -2 sum_u w[u] (r[i,j,u] - 1/2)
//! ```
//!
//! so that each term costs a multiply-add and a reciprocal. Two more steps reduce the cost:
//!
//! - The weight moves into the denominator. With `m = max |w|` and `d[u] = (m / w[u]) (1 + a c)`, each term is `w r = m
//!   / d`, where `(m / w) a` is computed once per query and `d` still takes one multiply-add.
//! - Two units share a reciprocal: `1/d1 + 1/d2 = (d1 + d2) / (d1 d2)`.
//!
//! For large weights, terms are `w tanh` instead (see [`pack`]), with `tanh = 1 - 1/x`, `x = (1 + a c) / 2`: where tanh
//! is small, so are these terms and their errors.
//!
//! The product `d1 d2` must stay within `f32`, which bounds each factor; see [`range`]. Elements outside these bounds
//! are evaluated by slower means, in the last resort by `tanh` of `q + k` itself. A term depends on its own query, key
//! and weights alone: no key changes a bit of another key's score.

mod blocks;
pub(crate) mod decode;
mod exact;
mod gradient;
pub(crate) mod location;
mod pack;
mod range;
pub(crate) mod score;
mod stream;
mod tanh;
mod tile;

pub use location::{LocationScoreGradients, LocationScoreInputs};
pub use score::{AdditiveScoreGradients, AdditiveScoreInputs};
pub(crate) use stream::AdditiveScore;
