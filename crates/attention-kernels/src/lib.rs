//! CPU kernels of attention, on plain slices.

#![warn(missing_docs)]

mod additive;
mod dot;
mod mask;
mod philox;
mod rows;
mod simd;
mod softmax;
#[allow(dead_code, reason = "being written")]
mod stream;
mod vectors;

pub use additive::{
    AdditiveAttention, AdditiveAttentionGradients, AdditiveGradients, AdditiveScore,
};
pub use dot::{DotProduct, DotProductGradients, dot_product_backward, dot_product_forward};
pub use mask::Mask;
pub use philox::Dropout;
pub use rows::Rows;
pub use simd::{Level, Real};
pub use softmax::{masked_softmax, masked_softmax_backward};
