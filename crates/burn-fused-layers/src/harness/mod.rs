//! The harness that turns a kernel into an operation of Burn, for operations of your own.
//!
//! An operation is a method of a [backend extension](burn::backend::backend_extension) whose inputs are one struct. A
//! kernel replaces it on the backends that have one: it runs forward, saves what it needs, and computes the requested
//! gradients. The operations of `attention-core` and the layers of this crate are built on it.
//!
//! | module | subject |
//! | --- | --- |
//! | [`operations`] | one declaration for each operation |
//! | [`kernel`] | the structure of a kernel: forward, saved state, backward |
//! | [`tracked`], [`optional`] | inputs that change backends, and tensors that may be absent |
//! | [`host`] | tensors in this process's memory as slices, on flex and ndarray |
//! | `differentiate` | a kernel as one node of the graph |
//! | [`deferred_gradients`], [`shared_weight`] | gradients of tensors that many calls read, computed at once |
//! | `fusion` | a kernel with Burn's fusion |
//! | `results` | results of a kernel waiting in fusion's queue, before they exist |
//! | [`checks`], [`parameter`] | messages that name arguments; quantised parameters |
//! | [`seed`] | seeds of kernels, from the generator of a backend |
//! | [`sigmoid`] | the logistic function, also in f64 |
//! | [`wide`] | the types in which operations compute |

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
