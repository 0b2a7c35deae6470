//! Loading parameters that PyTorch trained (feature `pytorch`), from `.pt` and `.safetensors` files.
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
//! The same for multi-head attention, D2L's and PyTorch's own: [`load_multi_head_attention`]; and for `torch.nn.GRU`
//! and `torch.nn.LSTM`: [`load_recurrent`].

mod additive;
mod multi_head;
mod recurrent;
mod state_dict;

pub use additive::load_additive_attention;
pub use multi_head::load_multi_head_attention;
pub use recurrent::load_recurrent;

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
