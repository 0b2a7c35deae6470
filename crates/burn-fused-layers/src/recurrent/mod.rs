//! Recurrent layers that train as one operation: GRU and LSTM, of several layers, in one direction or both.
//!
//! On the CPU a layer runs in kernels of `cpu-kernels`, all steps in one call: examples are divided among threads, and
//! the gradients of the weights are one product over all steps. Elsewhere it is composed of operations step by step,
//! with the same gradient. A GRU that resets before its product and an LSTM with peepholes, see [`CellKind`], have no
//! kernels: they are composed on every device, and differentiated operation by operation.
//!
//! ```
//! use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, Steps};
//! use burn::tensor::{Device, Distribution, Tensor};
//!
//! let device = Device::flex();
//! let gru = RecurrentConfig::new(CellKind::Gru, 5, 7).with_layers(2).init(&device);
//! let input = Tensor::<3>::random([2, 4, 5], Distribution::Default, &device);
//! // The second example has three steps.
//! let (outputs, last) = gru.forward(input, None, &Steps::of_lens([4, 3]));
//! assert_eq!(outputs.dims(), [2, 4, 7]);
//! assert_eq!(last[1].hidden.dims(), [2, 7]); // of the second layer
//! ```

mod burn_layers;
mod cell;
mod layer;
mod padding;
mod run;
mod stack;
mod states;
mod variants;

pub use crate::ops::{CellKind, Steps};
pub use burn_layers::UnsupportedLayer;
pub use cell::RecurrentCell;
pub use layer::{RecurrentLayer, RecurrentState};
pub use stack::{Recurrent, RecurrentConfig};
pub use states::{States, recurrent};
