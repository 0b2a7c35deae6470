//! The operations of layers, and the kernels that run them on each backend.
//!
//! Functions and modules on `Tensor`s above them check shapes and dispatch; below them is the
//! [`harness`](crate::harness). An operation is a folder: the inputs struct, `composed`, the definition in Burn's own
//! operations, and `cpu`, a kernel of `cpu-kernels`.

mod activate;
mod activate_linear;
mod backends;
mod deferred_rows;
mod dropout_factors;
mod layer_ops;
mod linear;
mod linear_cross_entropy;
mod normalize;
mod recurrent;
mod select_rows;

pub use backends::is_in_host_memory;
pub(crate) use layer_ops::inputs;
pub(crate) use layer_ops::inputs::*;
pub use layer_ops::{LayerBackend, LayerOps, OPERATIONS};
pub use recurrent::states::StepsRead;
pub use recurrent::{CellKind, Steps};
