//! The promises of layers, a subject a module.
#![allow(clippy::unwrap_used)]

mod activate;
mod linear;
mod linear_cross_entropy;
mod normalize;
mod packed_weights;
mod recurrent;
mod recurrent_conversions;
mod recurrent_onnx;
mod recurrent_precision;
mod recurrent_states;
mod wanted_gradients;
