//! CPU kernels of attention, on plain slices: no tensors, no Burn.
//!
//! | kernel | forward and backward |
//! | --- | --- |
//! | [`AdditiveScore`] | `w . tanh(q + k)` of all pairs, without a `tanh` per term |
//! | [`AdditiveAttention`] | the same score, straight to the context |
//! | [`DotProduct`] | scaled dot products, straight to the context |
//! | [`masked_softmax()`] | softmax over the keys that each query sees |
//!
//! Axes are `[batch, heads, rows, size]`. Inputs are [`Rows`], views that may be strided but for their last axis, in
//! `f32`, `f64` or half precision, of which a tile at a time is widened; outputs are contiguous slices. A [`Mask`] gives
//! each query an interval of keys, flags, or both, and hidden keys are inert whatever they hold. Work is shared among rayon's threads; their number changes no bit. Each kernel is written
//! once, over vectors that have an implementation for AVX-512, AVX2, NEON and plain Rust, and runs with the one that
//! its [`Level`] names.
//!
//! What "straight to the context" saves: nothing of `[queries, keys]` is stored, forward or backward. The backward pass
//! computes tiles of it again from the log-sum-exp of each row.
//!
//! ```
//! use attention_kernels::{DotProduct, Level, Mask, Rows, dot_product_forward};
//!
//! // One example, one head, two queries, three keys.
//! let (queries, keys) = ([1.0_f32, 0.0, 0.0, 1.0], [2.0, 0.0, 0.0, 2.0, 9.0, 9.0]);
//! let values = [10.0, 20.0, f32::NAN];
//! // Both queries see the first two keys.
//! let bounds = [[0, 2]];
//! let problem = DotProduct {
//!     queries: Rows::contiguous(&queries, [1, 1, 2, 2]),
//!     keys: Rows::contiguous(&keys, [1, 1, 3, 2]),
//!     values: Rows::contiguous(&values, [1, 1, 3, 1]),
//!     bias: None,
//!     mask: Mask::none().with_intervals(&bounds, [1, 1]),
//!     scale: 1.0,
//!     dropout: None,
//! };
//! let (mut context, mut lse) = ([0.0; 2], [0.0; 2]);
//! dot_product_forward(Level::current(), &problem, &mut context, &mut lse);
//! let share = 1.0 / (1.0 + (-2.0_f32).exp());
//! assert!((context[0] - (10.0 * share + 20.0 * (1.0 - share))).abs() < 1e-5);
//! assert!((context[1] - (20.0 * share + 10.0 * (1.0 - share))).abs() < 1e-5);
//! ```

mod additive;
mod dot;
mod listed;
mod mask;
mod pairs;
mod philox;
mod rows;
mod simd;
mod softmax;
mod stream;

pub use additive::{
    AdditiveAttention, AdditiveAttentionGradients, AdditiveGradients, AdditiveScore, AdditiveStep,
};
pub use dot::{
    DotProduct, DotProductGradients, DotProductStep, add_pairs, dot_product_backward,
    dot_product_backward_step, dot_product_forward,
};
pub use mask::Mask;
pub use philox::Dropout;
pub use rows::{Half, Rows};
pub use simd::{Level, Real};
pub use softmax::{masked_softmax, masked_softmax_backward};
