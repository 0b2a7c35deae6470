//! The streaming kernels: attention without its matrix of scores.
//!
//! Keys come in tiles. For each query the forward pass keeps a running maximum `m` of the scores, a running sum `l` of
//! `e^(s - m)` and a running weighted sum of values, both rescaled when the maximum grows (Milakov & Gimelshein 2018,
//! Dao et al. 2022). They end as the context and the logarithm of the sum, `lse = m + ln l`, from which the backward
//! pass recomputes the weights of a tile: `p = e^(s - lse)`. Its two terms are kept apart ([`LogSumExp`]).

mod attention;
mod backward;
mod bias_sums;
mod context_gradient;
mod forward;
mod pack;
mod pool;
mod running;
mod score;
mod sinks;
mod task;
mod tile;

pub(crate) use attention::{Attention, is_decode};
pub use attention::{AttentionGradients, AttentionOutputs, KeyValueGradients, LogSumExp};
pub(crate) use backward::backward;
pub(crate) use bias_sums::BiasSums;
pub(crate) use forward::forward;
pub(crate) use pack::{FiniteRows, PackedRows, Panel, Panels, padded};
pub(crate) use score::{Phase, Sizes, TileScore, Wanted};
pub(crate) use sinks::{Normalizer, sink_weight};
