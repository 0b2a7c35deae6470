#![doc = include_str!("../README.md")]

mod heads;
mod mask;
mod philox;
mod rows;

mod additive;
mod cross_entropy;
mod dot;
mod product;
mod recurrent;
mod softmax;
mod table;

mod buffer;
mod checks;
mod deferred;
mod gather;
mod real;
mod simd;
mod slices;
mod stream;
mod threads;
mod tiles;

pub use buffer::{Buffer, release_memory};
pub use heads::HeadIndex;
pub use mask::Mask;
pub use philox::Dropout;
pub use rows::Rows;

pub use additive::{
    AdditiveAttentionGradients, AdditiveAttentionInputs, AdditiveDeferredGradients,
    AdditiveScoreGradients, AdditiveScoreInputs,
};
pub use cross_entropy::{CrossEntropyGradients, CrossEntropyInputs};
pub use deferred::accumulate_deferred;
pub use dot::{
    DotProductAttentionGradients, DotProductAttentionInputs, DotProductDeferredGradients,
};
pub use product::{
    Matrix, Packing, ProductStart, column_sums, product, product_packed, product_sum,
};
pub use recurrent::{GruInputs, LstmInputs, RecurrentGradients, RecurrentInputs, RecurrentOutputs};
pub use softmax::{masked_softmax, masked_softmax_backward};
pub use stream::{AttentionOutputs, LogSumExp};
pub use table::{add_rows, copy_rows};

pub use real::Real;
pub use simd::{Float, Half, Level};
