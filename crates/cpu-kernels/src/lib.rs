#![doc = include_str!("../README.md")]

pub mod checks;
pub mod simd;
pub mod slices;
pub mod softmax;
pub mod threads;
#[doc(hidden)]
pub mod tuning;

mod activate;
mod buffer;
mod compile;
mod compiled;
mod cross_entropy;
mod normal;
mod normalize;
mod product;
mod real;
mod recurrent;
mod table;
mod tiles;

pub use activate::{Activation, ActivationGradients, ActivationInputs};
pub use buffer::{Buffer, release_memory};
pub use compiled::LayerReal;
pub use cross_entropy::{CrossEntropyGradients, CrossEntropyInputs};
pub use normalize::{NormalizationGradients, NormalizationInputs};
pub use product::{
    Matrix, Packing, ProductStart, column_sums, product, product_packed, product_sum,
};
pub use real::Real;
pub use recurrent::{GruInputs, LstmInputs, RecurrentGradients, RecurrentInputs, RecurrentOutputs};
pub use simd::{Float, Half, Level};
pub use table::{add_rows, copy_rows};
