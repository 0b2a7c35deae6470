//! The harness that makes a kernel an operation of Burn, for operations of one's own.
//!
//! An operation is a method of a [backend extension](burn::backend::backend_extension) whose inputs are one struct. A
//! kernel takes its place on the backends that have one: it runs forward, saves what it needs, and gives the gradients
//! that are wanted. `attention-core` builds its operations on this, and so do the layers of this crate.
//!
//! | module | subject |
//! | --- | --- |
//! | [`operations`] | one declaration for each operation |
//! | [`kernel`] | the shape of a kernel: forward, saved state, backward |
//! | [`tracked`], [`optional`] | inputs that change backends, and tensors that may be absent |
//! | [`host`] | tensors in this process's memory as slices, on flex and ndarray |
//! | `differentiate` | a kernel as one node of the graph |
//! | [`deferred_gradients`], [`shared_weight`] | gradients of what many calls read, made at once |
//! | `fusion` | a kernel behind Burn's fusion |
//! | `results` | results of a kernel that waits in that queue, before they are there |
//! | [`checks`], [`parameter`] | messages that name arguments; quantised parameters |
//! | [`seed`] | seeds of kernels, from the generator of a backend |
//! | [`sigmoid`] | the logistic function, in f64 too |
//! | [`wide`] | the types that operations compute in |

pub mod checks;
pub mod deferred_gradients;
#[cfg(feature = "autodiff")]
pub mod differentiate;
#[cfg(feature = "fusion")]
pub mod fusion;
pub mod host;
pub mod kernel;
pub mod operations;
pub mod optional;
pub mod parameter;
#[cfg(feature = "fusion")]
pub mod results;
pub mod seed;
pub mod shared_weight;
pub mod sigmoid;
pub mod tracked;
pub mod upload;
pub mod wide;
