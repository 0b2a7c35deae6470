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
//! The product `d1 d2` must stay within `f32`, which bounds what one factor may be; see [`range`]. Elements outside of
//! those bounds take slower paths, of which the last evaluates `tanh` from `q + k` itself. What a term comes to depends
//! on its own query, key and weights alone: what one key holds cannot change a bit of another's score.

mod attention;
mod compiled;
mod few;
mod gradient;
mod pack;
mod panel;
mod range;
mod score;
mod stream;
mod tile;

pub(crate) use compiled::AdditiveKernels;

pub use attention::{AdditiveAttention, AdditiveAttentionGradients, AdditiveStep};
pub use score::{AdditiveGradients, AdditiveScore};

/// Keys stand side by side in blocks of this many, one or more vectors of every level.
pub(crate) const BLOCK: usize = 16;

/// # Panics
/// If a gradient, found, has not the length expected.
fn check_lens<const N: usize>(kernel: &str, lens: [(&str, usize, usize); N]) {
    for (name, found, expected) in lens {
        assert!(
            found == expected,
            "{kernel}: gradient of {name} expected {expected} numbers, got {found}"
        );
    }
}
