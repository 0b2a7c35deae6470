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
//! | `torch.nn.GRU`, `torch.nn.LSTM` | [`load_recurrent`] |
//! | `torch.nn.TransformerEncoderLayer` | [`load_transformer_encoder_layer`] |
//! | `torch.nn.TransformerEncoder` | [`load_transformer_encoder`] |
//! | `torch.nn.TransformerDecoderLayer` | [`load_transformer_decoder_layer`] |
//! | `torch.nn.TransformerDecoder` | [`load_transformer_decoder`] |
//! | language models of Hugging Face's, as Llama, Gemma, GPT-2, BERT and T5 | the functions of [`hugging_face`] |
//!
//! The last are made from a folder, whose config says all sizes. The others fill a module that was configured before:
//! a state dict says no number of heads, no activation and no order of normalizations.
//!
//! Models with rotary embedding differ in which features are a pair:
//! [`RotaryConfig::reordered`](crate::RotaryConfig::reordered) takes the weights, biases and gains of queries and keys
//! from one layout to the other.
//!
//! # Files
//!
//! The content tells the format, whatever the file is called: the zip archives and the earlier files (PyTorch 0.1.10 to
//! 1.5) of `torch.save`, with a state dict, a checkpoint that contains one (its key is part of the prefix), or a whole
//! module; and safetensors. Only the tensors that a layer asks for are read, so the others may be of any size and
//! type. A pickle is read as data: no function that it names is called.
//!
//! Instead of a file there may be the index of its shards, `model.safetensors.index.json`, as Hugging Face splits a
//! large one: a tensor is read from the file beside it that the index names.

mod additive;
mod checkpoint;
pub mod hugging_face;
mod json;
mod multi_head;
mod recurrent;
mod state_dict;
mod transformer;

pub use additive::load_additive_attention;
pub use multi_head::load_multi_head_attention;
pub use recurrent::load_recurrent;
pub use transformer::{
    load_transformer_decoder, load_transformer_decoder_layer, load_transformer_encoder,
    load_transformer_encoder_layer,
};

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
    fn of(path: &Path) -> impl Fn(String) -> Self {
        move |reason| Self {
            path: path.to_path_buf(),
            reason,
        }
    }
}
