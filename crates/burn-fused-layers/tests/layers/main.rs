//! The promises of layers, a subject a module.
#![allow(clippy::unwrap_used)]

mod activate;
mod leaves;
mod linear;
mod linear_cross_entropy;
mod normalize;
mod packed_layers;
mod parameters;
mod recurrent;
mod recurrent_conversions;
mod recurrent_onnx;
mod recurrent_precision;
mod recurrent_states;
mod recurrent_variants;
mod wanted_gradients;

use burn_fused_layers::recurrent::{CellKind, RecurrentConfig};

/// Each cell, of input and hidden size: those with kernels, and those that are composed on every device.
fn cells([input_size, hidden_size]: [usize; 2]) -> [RecurrentConfig; 4] {
    let config = |cell| RecurrentConfig::new(cell, input_size, hidden_size);
    [
        config(CellKind::Gru),
        config(CellKind::Lstm),
        config(CellKind::Gru).with_reset_after(false),
        config(CellKind::Lstm).with_peepholes(true),
    ]
}
