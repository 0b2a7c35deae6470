#![doc = include_str!("../README.md")]
#![cfg_attr(feature = "ndarray", allow(deprecated))]
#![cfg_attr(
    not(all(feature = "autodiff", feature = "flex")),
    allow(
        dead_code,
        reason = "kernels are for the CPU, their gradients for autodiff, half precision for flex"
    )
)]
#![cfg_attr(
    not(any(feature = "flex", feature = "ndarray", feature = "cubecl-backend")),
    allow(unused_variables, reason = "without a backend nothing is dispatched")
)]

mod activate;
mod dropout;
mod embedding_table;
pub mod harness;
mod linear;
mod linear_cross_entropy;
mod normalize;
mod ops;
mod packed_linear;
pub mod paths;
mod read_shared;
pub mod recurrent;
mod select_rows;

pub use activate::{activate, activate_gated, activate_gated_linear, activate_linear};
pub use dropout::{drop_elements, dropout, dropout_beside, drops};
pub use embedding_table::EmbeddingTable;
pub use linear::{linear, linear_of};
pub use linear_cross_entropy::{ClassTargets, linear_cross_entropy, linear_cross_entropy_of_parts};
pub use normalize::{layer_norm, rms_norm};
pub use packed_linear::PackedLinear;
pub use read_shared::read_shared;

pub use cpu_kernels::{Activation, release_memory};
pub use ops::is_in_host_memory;

/// The operations of layers as a Burn backend extension, for backends that are not Burn's own.
///
/// [`LayerOps`](backend::LayerOps) is implemented for all backends whose feature is on. Another one takes part with
///
/// ```text
/// impl LayerBackend for MyBackend {}
/// impl LayerOps for MyBackend {}
/// ```
///
/// Every operation is then composed of Burn's, and differentiated with them. To add a kernel, override its method of
/// `LayerOps`, which gets all tensors and options of the operation as one struct.
pub mod backend {
    pub use crate::harness::deferred_gradients::GradientSlot;
    pub use crate::harness::optional::OptionalTensor;
    pub use crate::harness::shared_weight::SharedWeight;
    pub use crate::ops::inputs::*;
    pub use crate::ops::{LayerBackend, LayerOps, OPERATIONS, StepsRead};
    pub use crate::recurrent::{CellKind, Steps};
}
