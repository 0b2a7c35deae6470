//! CPU kernels of attention, on plain slices: no tensors, no Burn.
//!
//! | inputs | forward and backward |
//! | --- | --- |
//! | [`AdditiveScoreInputs`] | `w . tanh(q + k)` of all pairs, without a `tanh` per term |
//! | [`AdditiveAttentionInputs`] | attention with the same score, fused |
//! | [`DotProductAttentionInputs`] | attention with scaled dot products, fused |
//! | [`masked_softmax()`] | softmax over the keys that each query attends to |
//!
//! Axes are `[batch, heads, queries, size]` and `[batch, key_heads, keys, size]`, where `key_heads` divides `heads`.
//! Inputs are [`Rows`], views that may be strided but for their last axis, in `f32`, `f64` or half precision, of which
//! a tile at a time is widened; outputs are contiguous slices. A [`Mask`] gives each query an interval of keys, flags,
//! or both, and masked keys are ignored whatever they hold. Work is shared among rayon's threads; their number changes
//! no bit. Each kernel is written once, over vectors that have an implementation for AVX-512, AVX2, NEON and plain
//! Rust, and runs with the one that its [`Level`] names.
//!
//! Fused means that nothing of `[queries, keys]` is stored, forward or backward. The backward pass computes tiles of it
//! again from the log-sum-exp of each query. Few queries, as a decoder's step has, take kernels of their own; what
//! their gradients leave for keys and values can be deferred and [accumulated](accumulate_deferred) once for all steps.
//!
//! ```
//! use attention_kernels::{DotProductAttentionInputs, Level, Mask, Rows};
//!
//! // One example, one head, two queries, three keys.
//! let (queries, keys) = ([1.0_f32, 0.0, 0.0, 1.0], [2.0, 0.0, 0.0, 2.0, 9.0, 9.0]);
//! let values = [10.0, 20.0, f32::NAN];
//! // Both queries attend to the first two keys.
//! let bounds = [[0, 2]];
//! let inputs = DotProductAttentionInputs {
//!     queries: Rows::contiguous(&queries, [1, 1, 2, 2]),
//!     keys: Rows::contiguous(&keys, [1, 1, 3, 2]),
//!     values: Rows::contiguous(&values, [1, 1, 3, 1]),
//!     bias: None,
//!     mask: Mask::none().with_intervals(&bounds, [1, 1]),
//!     scale: 1.0,
//!     dropout: None,
//! };
//! let (mut context, mut lse) = ([0.0; 2], [0.0; 2]);
//! inputs.forward(Level::current(), &mut context, &mut lse);
//! let share = 1.0 / (1.0 + (-2.0_f32).exp());
//! assert!((context[0] - (10.0 * share + 20.0 * (1.0 - share))).abs() < 1e-5);
//! assert!((context[1] - (20.0 * share + 10.0 * (1.0 - share))).abs() < 1e-5);
//! ```

mod heads;
mod mask;
mod philox;
mod rows;

mod additive;
mod dot;
mod softmax;

mod checks;
mod deferred;
mod gather;
mod real;
mod simd;
mod slices;
mod stream;
mod tiles;

pub use heads::HeadIndex;
pub use mask::Mask;
pub use philox::Dropout;
pub use rows::Rows;

pub use additive::{
    AdditiveAttentionGradients, AdditiveAttentionInputs, AdditiveDeferredGradients,
    AdditiveScoreGradients, AdditiveScoreInputs,
};
pub use deferred::accumulate_deferred;
pub use dot::{
    DotProductAttentionGradients, DotProductAttentionInputs, DotProductDeferredGradients,
};
pub use softmax::{masked_softmax, masked_softmax_backward};
pub use stream::AttentionOutputs;

pub use real::Real;
pub use simd::{Float, Half, Level};
