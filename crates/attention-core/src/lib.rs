#![doc = include_str!("../README.md")]
#![cfg_attr(feature = "ndarray", allow(deprecated))]

mod attention;
pub mod import;
mod linear;
mod mask;
mod memory;
pub mod ops;
mod rank;
mod score;
mod softmax;

// In the order of the pipeline: score, mask, softmax, weighted sum.
pub use score::{
    AdditiveScore, AdditiveScoreConfig, DotProductScore, DotProductScoreConfig, ScoringFunction,
};

pub use mask::Mask;

pub use softmax::masked_softmax;

pub use attention::{
    AdditiveAttention, AdditiveAttentionConfig, Attention, AttentionOutput, DotProductAttention,
    DotProductAttentionConfig,
};
pub use memory::Memory;
