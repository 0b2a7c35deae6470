//! The operations of attention, and the kernels that run them on each backend.
//!
//! These work on tensors of a backend and resolved masks. [`functional`](crate::functional) above them has functions on
//! `Tensor`s, which check shapes, handle empty axes, resolve masks and dispatch. The parts in here, from the bottom up:
//!
//! | part | what it is |
//! | --- | --- |
//! | `mask`, `score_modifiers`, `deferred_pairs` | the parts of inputs |
//! | `host`, `gpu`, `masked`, .. | tools of kernels and definitions |
//! | a folder for each operation, or a file for a small one | see the table below |
//! | `attention_ops` | the list of operations, from which [`AttentionOps`] and the tables of kernels follow |
//! | `backends` | which backend has which table |
//!
//! | part of an operation | what it is |
//! | --- | --- |
//! | inputs struct | tensors and options by name, the mask resolved; every layer passes it on unchanged |
//! | `composed` | the definition, in Burn's own operations; it runs everywhere, and kernels are tested against it |
//! | `cpu.rs` | the operation by a kernel of `attention-kernels`: forward, saved state, backward |
//! | `gpu.rs` | the operation by the kernels of `attention-gpu` |
//!
//! Below them is the [harness](burn_fused_layers::harness) of `burn-fused-layers`: it defines kernels, inputs that
//! change backends and tensors as slices, and makes kernels differentiable.
//!
//! A part imports only from parts before it. Only definitions reach further: they ask [`AttentionBackend`] how large a
//! buffer may be, and attention uses the score, softmax and weighted sum of [`AttentionOps`], which may have kernels.
//!
//! Axes of attention are always `[batch, heads, queries, keys]`; queries, keys and values of one head need no axis for
//! it.

mod additive_score;
mod attention;
mod attention_ops;
mod backends;
mod deferred_pairs;
mod dot_product_score;
mod dropout;
mod fill_padding;
#[cfg(feature = "cubecl-backend")]
mod gpu;
mod host;
mod key_heads;
mod largest_tensor;
mod location_score;
mod mask;
mod masked;
mod masked_softmax;
mod pack_additive_keys;
mod rotate;
mod score_modifiers;
mod score_weights;
mod step_context;
mod weighted_sum;

pub(crate) use attention_ops::inputs;
pub(crate) use attention_ops::inputs::*;
pub(crate) use attention_ops::{ADDITIVE_ATTENTION, DOT_PRODUCT_ATTENTION, PAIRWISE_ATTENTION};
pub use attention_ops::{AttentionBackend, AttentionOps, OPERATIONS};
pub use deferred_pairs::SharedGradients;
pub use mask::{DeviceMask, HostMask, Intervals, Keep, ResolvedMask};
pub use rotate::RotaryLayout;
pub use score_modifiers::ScoreModifiers;

#[cfg(feature = "cubecl-backend")]
pub(crate) use backends::cube_device;
pub(crate) use backends::runs_on_host;
pub(crate) use dropout::composed as dropped;
pub(crate) use fill_padding::fill_rows_without_key;
pub(crate) use key_heads::{repeated, sizes_with_heads};
pub(crate) use masked::{Masked, lowest};
pub(crate) use score_modifiers::along_diagonals;
pub(crate) use score_weights::softmax_with_sinks;
