#![doc = include_str!("../README.md")]
#![cfg_attr(feature = "ndarray", allow(deprecated))]

mod alignment;
mod attention;
pub mod import;
mod linear;
mod mask;
mod memory;
mod normalizer;
pub mod ops;
mod rank;
mod score;
mod softmax;

// In the order of the pipeline: score, mask, normalizer, weighted sum.
pub use score::{
    AdditiveScore, AdditiveScoreConfig, DotFamily, DotProductScore, DotProductScoreConfig,
    ScoringFunction,
};

pub use mask::Mask;

pub use normalizer::Normalizer;
pub use softmax::masked_softmax;

pub use attention::{
    AdditiveAttention, AdditiveAttentionConfig, Attention, AttentionOutput, DotProductAttention,
    DotProductAttentionConfig,
};
pub use memory::Memory;

pub use alignment::{
    Alignment, AlignmentState, CoverageAttention, CoverageAttentionConfig, CoverageState,
    LocationAttention, LocationAttentionConfig, LocationFeatures, LocationState,
    MonotonicAttention, MonotonicAttentionConfig, MonotonicState, expected_alignment,
};
