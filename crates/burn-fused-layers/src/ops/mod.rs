//! The operations of layers, and what runs them on each backend.
//!
//! Above them stand functions and modules on `Tensor`s, which check shapes and dispatch; below them the
//! [`harness`](crate::harness). An operation is a folder: the inputs struct, `composed`, the definition in Burn's own
//! operations, and `cpu`, a kernel of `cpu-kernels`.

mod activate;
mod activate_linear;
mod backends;
mod deferred_rows;
mod dropout_factors;
mod layer_backend;
mod layer_ops;
mod linear;
mod linear_cross_entropy;
mod normalize;
mod recurrent;
mod select_rows;

pub use activate::ActivateInputs;
pub use activate_linear::ActivateLinearInputs;
pub use backends::is_in_host_memory;
pub use dropout_factors::DropoutFactorsInputs;
pub use layer_backend::LayerBackend;
pub use layer_ops::LayerOps;
pub use linear::LinearInputs;
pub(crate) use linear::kept_weights;
pub use linear_cross_entropy::LinearCrossEntropyInputs;
pub use normalize::NormalizeInputs;
pub use recurrent::states::StepsRead;
pub use recurrent::{CellKind, RecurrentInputs, Steps};
pub use select_rows::SelectRowsInputs;
