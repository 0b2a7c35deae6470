//! Parameters of D2L's additive attention.

use std::path::Path;

use attention_core::{AdditiveAttention, AdditiveScore};

use crate::state_dict::{Place, StateDict};
use crate::{ImportError, read_file};

/// Loads a PyTorch state dict of D2L's `AdditiveAttention` into `attention`.
///
/// `prefix` is what stands before `W_q.weight` in the file: `""` for a state dict of the attention alone,
/// `"decoder.attention."` for one of a larger model, whose other tensors are left alone.
///
/// # Errors
/// If the file is missing or malformed, one of the tensors is missing, of a type that cannot be read or of another
/// shape than `attention` was configured for, the file has a bias that `attention` has not, or `attention` normalises
/// w_v, which D2L's does not.
///
/// ```no_run
/// use attention_core::AdditiveAttentionConfig;
/// use attention_import::load_additive_attention;
/// use burn::prelude::*;
///
/// let attention = AdditiveAttentionConfig::new(20, 2, 8).init(&Device::flex());
/// let attention = load_additive_attention(attention, "attention.pt", "")?;
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_additive_attention(
    attention: AdditiveAttention,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<AdditiveAttention, ImportError> {
    read_file(path, prefix, |file| load(attention, file))
}

fn load(attention: AdditiveAttention, file: &StateDict) -> Result<AdditiveAttention, String> {
    let AdditiveScore {
        query,
        key,
        value,
        gain,
    } = attention.score;
    if gain.is_some() {
        let reason =
            "expected an attention without `normalize`: the file has no place for its gain";
        return Err(reason.to_string());
    }
    for (bias, has_place) in [("W_k.bias", false), ("W_q.bias", query.bias.is_some())] {
        if !has_place {
            let reason = "the attention has no such bias; add `W_k.bias` to `W_q.bias`, with `with_bias(true)`";
            file.refuse(bias, reason)?;
        }
    }
    let score = AdditiveScore {
        query: file.linear(query, Place::weight_and_bias("W_q"))?,
        key: file.linear(key, Place::weight_and_bias("W_k"))?,
        value: file.linear(value, Place::weight_and_bias("w_v"))?,
        gain: None,
    };
    Ok(AdditiveAttention { score, ..attention })
}
