#![doc = include_str!("../README.md")]

mod heads;
mod mask;
mod philox;
mod rows;

#[doc(hidden)]
pub mod tuning;

mod additive;
mod attention;
mod dot;
mod inputs;
mod rotate;
mod score_mod;
mod softmax;

mod compiled;
mod decode;
mod deferred;
mod gather;
mod modifiers;
mod pairwise;
mod slices;
mod soft_cap;
mod stream;
mod tiles;
mod unit_panel;

pub use heads::HeadIndex;
pub use mask::Mask;
pub use philox::Dropout;
pub use rows::Rows;

pub use additive::{
    AdditiveScoreGradients, AdditiveScoreInputs, LocationScoreGradients, LocationScoreInputs,
};
pub use deferred::accumulate_deferred;
pub use inputs::{AttentionInputs, Score};
pub use modifiers::{ModifierGradients, ScoreModifiers};
pub use pairwise::{PairwiseKernel, PairwiseTerm};
pub use rotate::{PairLayout, Rotation};
pub use score_mod::{RowOfScores, ScoreMod, VectorMod};
pub use softmax::{masked_softmax, masked_softmax_backward};
pub use stream::{AttentionGradients, AttentionOutputs, KeyValueGradients, LogSumExp};

pub use compiled::AttentionReal;
pub use cpu_kernels::simd::Simd;
pub use cpu_kernels::{Buffer, Float, Half, Level, Real};
