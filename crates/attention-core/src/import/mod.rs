//! Loading parameters that PyTorch trained (feature `pytorch`), from files of `torch.save` and of safetensors.
//!
//! D2L's `AdditiveAttention` has the parameters `W_q.weight`, `W_k.weight` and `w_v.weight`; Burn's live in
//! [`AdditiveScore`](crate::AdditiveScore) as `query`, `key` and `value`. PyTorch stores a linear layer as
//! `[out, in]` and Burn as `[in, out]`; loading transposes. An attention with a bias expects a `W_q.bias` as well.
//!
//! ```python
//! torch.save(attention.state_dict(), "attention.pt")
//! safetensors.torch.save_file(attention.state_dict(), "attention.safetensors")
//! ```
//!
//! | parameters of | are loaded by |
//! | --- | --- |
//! | D2L's `AdditiveAttention` | [`load_additive_attention`] |
//! | D2L's `MultiHeadAttention`, `torch.nn.MultiheadAttention` | [`load_multi_head_attention`] |
//! | attentions of ESPnet, SpeechBrain, OpenNMT-py, Coqui TTS and other packages | [`packages`] |
//! | `torch.nn.GRU`, `torch.nn.LSTM`, `torch.nn.GRUCell`, `torch.nn.LSTMCell` | [`load_recurrent`] |
//! | layers and stacks of `torch.nn.Transformer` | `attention_transformers::torch` |
//! | language models of Hugging Face's, as Llama, Gemma, GPT-2, BERT and T5 | `attention_transformers::hub` |
//! | modules of your own | [`StateDict`] |
//!
//! A function fills a module that was configured before: a state dict says no number of heads.
//!
//! Models with rotary embedding differ in which features are a pair:
//! [`RotaryConfig::reordered`](crate::position::RotaryConfig::reordered) takes the weights, biases and gains of queries
//! and keys from one layout to the other.
//!
//! # Files
//!
//! The content tells the format, whatever the file is called: the zip archives and the earlier files (PyTorch 0.1.10 to
//! 1.5) of `torch.save`, with a state dict, a checkpoint that contains one (its key is part of the prefix), or a whole
//! module; and safetensors. Only the tensors that a layer asks for are read, so the others may be of any size and
//! type. A pickle is read as data: no function that it names is called.
//!
//! The weight of a linear layer, of a recurrent layer or of an attention of [`packages`] that `weight_norm` divided
//! into a length g and a direction v, in PyTorch's old form or its new one, is read as `g v / |v|`.
//!
//! Instead of a file there may be the index of its shards, `model.safetensors.index.json`, as Hugging Face splits a
//! large one: a tensor is read from the file beside it that the index names.
//!
//! # Files that PyTorch reads
//!
//! burn-store calls a tensor by the fields of its module:
//!
//! | here | PyTorch |
//! | --- | --- |
//! | `score.query`, `score.key`, `score.value` of [`AdditiveAttention`](crate::AdditiveAttention) | D2L's `W_q`, `W_k`, `w_v` |
//! | `query`, `key`, `value`, `output` of [`MultiHeadAttention`](crate::MultiHeadAttention) | D2L's `W_q`, `W_k`, `W_v`, `W_o`; `torch.nn`'s `in_proj_weight` and `in_proj_bias`, the rows of three layers, and `out_proj` |
//! | `layers.0.input`, `layers.0.hidden` of a GRU or an LSTM | `weight_ih_l0` and `bias_ih_l0`, `weight_hh_l0` and `bias_hh_l0` |
//! | `reversed.0.input`, `reversed.0.hidden` | the same and `_reverse` |
//!
//! Where only names differ, burn-store writes what PyTorch reads; D2L's `AdditiveAttention` takes three:
//!
//! ```
//! use attention_core::AdditiveAttentionConfig;
//! use attention_core::import::load_additive_attention;
//! use burn::prelude::*;
//! use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, SafetensorsStore};
//!
//! let device = Device::flex();
//! let attention = AdditiveAttentionConfig::new(3, 5, 7).init(&device);
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("attention.safetensors");
//! let mut store = SafetensorsStore::from_file(&path)
//!     .with_to_adapter(BurnToPyTorchAdapter)
//!     .with_key_remapping(r"^score\.query\.", "W_q.")
//!     .with_key_remapping(r"^score\.key\.", "W_k.")
//!     .with_key_remapping(r"^score\.value\.", "w_v.");
//! attention.save_into(&mut store)?;
//!
//! let other = AdditiveAttentionConfig::new(3, 5, 7).init(&device);
//! let other = load_additive_attention(other, &path, "")?;
//! let weights = [&attention, &other].map(|of| of.score.key.weight.to_data());
//! assert_eq!(weights[0], weights[1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod additive;
mod checkpoint;
mod json;
mod multi_head;
pub mod packages;
mod recurrent;
mod state_dict;
mod weight_norm;

pub use additive::load_additive_attention;
pub use checkpoint::Found;
pub use multi_head::{load_multi_head_attention, read_multi_head_attention};
pub use recurrent::load_recurrent;
pub use state_dict::{Place, StateDict};
// For the configurations that `attention_transformers::hub` reads.
#[doc(hidden)]
pub use json::{kind, read_object};

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a state dict could not be loaded. Names the file, what was expected and what came.
#[derive(Debug, Error)]
#[error("cannot load `{path}`: {reason}", path = path.display())]
pub struct ImportError {
    path: PathBuf,
    reason: String,
}

impl ImportError {
    /// An error with a reason, for the file at `path`.
    pub fn of(path: &Path) -> impl Fn(String) -> Self {
        move |reason| Self {
            path: path.to_path_buf(),
            reason,
        }
    }
}
