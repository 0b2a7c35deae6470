//! Recurrent layers that train as one operation: GRU and LSTM, one layer in one direction.
//!
//! On the CPU a layer runs in kernels of `attention-kernels`, all steps in one call: examples are shared among
//! threads, and the gradients of the weights are one product over all steps. Elsewhere it is composed of a step's
//! operations, with the same gradient.
//!
//! ```
//! use attention_core::recurrent::{GruConfig, Steps};
//! use burn::tensor::{Device, Distribution, Tensor};
//!
//! let device = Device::flex();
//! let gru = GruConfig::new(5, 7).init(&device);
//! let input = Tensor::<3>::random([2, 4, 5], Distribution::Default, &device);
//! // The second example has three steps.
//! let (states, last) = gru.forward(input, None, &Steps::of_lens([4, 3]));
//! assert_eq!((states.dims(), last.dims()), ([2, 4, 7], [2, 7]));
//! ```

mod gru;
mod layer;
mod lstm;

pub use crate::ops::Steps;
pub use gru::{Gru, GruCell, GruConfig};
pub use lstm::{Lstm, LstmCell, LstmConfig, LstmState};
