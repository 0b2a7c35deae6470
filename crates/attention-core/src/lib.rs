#![doc = include_str!("../README.md")]
#![cfg_attr(feature = "ndarray", allow(deprecated))]

mod alignment;
mod attention;
pub mod import;
mod linear;
mod mask;
mod memory;
mod multi_head;
mod normalizer;
pub mod ops;
mod position;
mod rank;
mod score;
mod sigmoid;
mod softmax;

// In the order of the pipeline: score, mask, normalizer, weighted sum.
pub use score::{
    AdditiveScore, AdditiveScoreConfig, BilinearScore, BilinearScoreConfig, ConcatScore,
    ConcatScoreConfig, CosineScore, CosineScoreConfig, DotFamily, DotProductScore,
    DotProductScoreConfig, GaussianScore, GaussianScoreConfig, Kernel, KernelScore,
    KernelScoreConfig, ProjectedScore, ProjectedScoreConfig, ScoringFunction,
};

pub use position::{
    Alibi, AlibiConfig, Biased, PositionBias, RelativePositionBias, RelativePositionBiasConfig,
    Rotary,
};

pub use mask::Mask;

pub use normalizer::Normalizer;
pub use softmax::masked_softmax;

pub use attention::{
    AdditiveAttention, AdditiveAttentionConfig, Attention, AttentionOutput, DotProductAttention,
    DotProductAttentionConfig,
};
pub use memory::Memory;
pub use multi_head::{MultiHead, MultiHeadConfig, MultiHeadOutput};

pub use alignment::{
    Alignment, AlignmentState, CoverageAttention, CoverageAttentionConfig, CoverageState,
    LocationAttention, LocationAttentionConfig, LocationFeatures, LocationState,
    MonotonicAttention, MonotonicAttentionConfig, MonotonicState, expected_alignment,
};
