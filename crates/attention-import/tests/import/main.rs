//! Files become parameters, or an error of one line; parameters of others compute what theirs did.
#![allow(clippy::unwrap_used)]

#[path = "../../../tensor-files/tests/formats/check.rs"]
mod check;

mod additive;
mod changed;
mod class_names;
mod files;
mod formats;
mod frameworks;
mod hostile;
mod multi_head_references;
mod packages;
mod recurrent_references;
mod safetensors;
mod weight_norm;
mod wrong_calls;

use std::path::Path;

use attention_core::AdditiveAttention;
use attention_core::score::AdditiveScore;
use attention_import::{ImportError, Place, StateDict};

/// The layers of D2L's additive attention by [`StateDict::linear`], into an attention that was configured before.
fn fill(
    attention: AdditiveAttention,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<AdditiveAttention, ImportError> {
    let path = path.as_ref();
    let filled = StateDict::open(path, prefix).and_then(|file| {
        let score = attention.score;
        let score = AdditiveScore {
            query: file.linear(score.query, Place::weight_and_bias("W_q"))?,
            key: file.linear(score.key, Place::weight_and_bias("W_k"))?,
            value: file.linear(score.value, Place::weight_and_bias("w_v"))?,
            gain: score.gain,
        };
        Ok(AdditiveAttention { score, ..attention })
    });
    filled.map_err(ImportError::of(path))
}
