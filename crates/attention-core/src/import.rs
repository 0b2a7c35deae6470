//! Loading parameters that PyTorch trained.
//!
//! The book's `AdditiveAttention` has the parameters `W_q.weight`, `W_k.weight` and `w_v.weight`; Burn's live in
//! [`AdditiveScore`](crate::AdditiveScore) as `query`, `key` and `value`. PyTorch stores a linear map as
//! `[out, in]` and Burn as `[in, out]`; loading transposes. An attention with a bias expects a `W_q.bias` as well.
//!
//! ```python
//! torch.save(attention.state_dict(), "attention.pt")
//! safetensors.torch.save_file(attention.state_dict(), "attention.safetensors")
//! ```
//!
//! The same for multi-head attention, the book's and PyTorch's own: [`load_multi_head_attention`].
//!
//! Reading `.pt` needs this crate's feature `pytorch`, reading `.safetensors` its feature `safetensors`.

mod multi_head;
mod tensors;

pub use multi_head::load_multi_head_attention;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::AdditiveAttention;

/// Why a state dict could not be loaded. Names the file, what was expected and what came.
#[derive(Debug)]
pub struct ImportError {
    path: PathBuf,
    reason: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot load `{}`: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for ImportError {}

/// Loads a PyTorch state dict of the book's `AdditiveAttention` into `attention`.
///
/// `prefix` is what stands before `W_q.weight` in the file: `""` for a state dict of the attention alone,
/// `"decoder.attention."` for one of a larger model, whose other tensors are left alone.
///
/// # Errors
/// If the file is missing or malformed, its extension is none of `pt`, `pth`, `bin` and `safetensors`, one of
/// the tensors is missing or of another shape than `attention` was configured for, or `attention` normalises w_v,
/// which the book's does not.
///
/// ```no_run
/// use attention_core::AdditiveAttentionConfig;
/// use attention_core::import::load_additive_attention;
/// use burn::prelude::*;
///
/// let attention = AdditiveAttentionConfig::new(20, 2, 8).init(&Device::flex());
/// let attention = load_additive_attention(attention, "attention.pt", "")?;
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_additive_attention(
    attention: AdditiveAttention,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<AdditiveAttention, ImportError> {
    let path = path.as_ref();
    let error = |reason: String| ImportError {
        path: path.to_path_buf(),
        reason,
    };
    if let Err(source) = std::fs::File::open(path) {
        return Err(error(source.to_string()));
    }
    if attention.score.gain.is_some() {
        let reason =
            "expected an attention without `normalize`: the file has no place for its gain";
        return Err(error(reason.to_string()));
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("pt" | "pth" | "bin") => pytorch(attention, path, prefix),
        Some("safetensors") => safetensors(attention, path, prefix),
        _ => Err("expected a file ending in .pt, .pth, .bin or .safetensors".to_string()),
    }
    .map_err(error)
}

#[cfg(not(feature = "pytorch"))]
fn pytorch(_: AdditiveAttention, _: &Path, _: &str) -> Result<AdditiveAttention, String> {
    Err("reading PyTorch files needs the feature `pytorch` of attention-core".to_string())
}

#[cfg(not(feature = "safetensors"))]
fn safetensors(_: AdditiveAttention, _: &Path, _: &str) -> Result<AdditiveAttention, String> {
    Err("reading safetensors files needs the feature `safetensors` of attention-core".to_string())
}

#[cfg(feature = "pytorch")]
fn pytorch(
    attention: AdditiveAttention,
    path: &Path,
    prefix: &str,
) -> Result<AdditiveAttention, String> {
    use burn::store::PytorchStore;

    state_dict::load(
        attention,
        PytorchStore::from_file(path)
            .remap(state_dict::renaming(prefix)?)
            .allow_partial(true),
        prefix,
    )
}

#[cfg(feature = "safetensors")]
fn safetensors(
    attention: AdditiveAttention,
    path: &Path,
    prefix: &str,
) -> Result<AdditiveAttention, String> {
    use burn::store::{PyTorchToBurnAdapter, SafetensorsStore};

    state_dict::load(
        attention,
        SafetensorsStore::from_file(path)
            .with_from_adapter(PyTorchToBurnAdapter)
            .remap(state_dict::renaming(prefix)?)
            .allow_partial(true),
        prefix,
    )
}

#[cfg(any(feature = "pytorch", feature = "safetensors"))]
mod state_dict {
    use burn::store::{KeyRemapper, ModuleSnapshot, ModuleStore};

    use crate::AdditiveAttention;

    /// PyTorch's names and ours; the last only where there is a bias.
    const NAMES: [(&str, &str); 4] = [
        ("W_q.weight", "score.query.weight"),
        ("W_k.weight", "score.key.weight"),
        ("w_v.weight", "score.value.weight"),
        ("W_q.bias", "score.query.bias"),
    ];

    /// A pattern that matches `name` alone.
    fn literal(name: &str) -> String {
        let escape = |c: char| c.is_ascii_punctuation().then_some('\\');
        name.chars()
            .flat_map(|c| escape(c).into_iter().chain([c]))
            .collect()
    }

    pub(super) fn renaming(prefix: &str) -> Result<KeyRemapper, String> {
        NAMES
            .iter()
            .try_fold(KeyRemapper::new(), |renaming, (theirs, ours)| {
                let pattern = format!("^{}{}$", literal(prefix), literal(theirs));
                renaming
                    .add_pattern(pattern, *ours)
                    .map_err(|error| format!("prefix `{prefix}`: {error}"))
            })
    }

    /// `prefix` is what stands before the names in the file.
    pub(super) fn load<T: ModuleStore>(
        mut attention: AdditiveAttention,
        mut store: T,
        prefix: &str,
    ) -> Result<AdditiveAttention, String> {
        let result = attention
            .load_from(&mut store)
            .map_err(|error| error.to_string().replace('\n', " "))?;
        if let Some(error) = result.errors.first() {
            return Err(error.to_string());
        }
        let surplus = [format!("{prefix}W_k.bias"), "score.query.bias".to_string()];
        if let Some(name) = result.unused.iter().find(|name| surplus.contains(name)) {
            let theirs = match *name == surplus[0] {
                true => "W_k.bias",
                false => "W_q.bias",
            };
            return Err(format!(
                "expected no tensor `{theirs}`: the attention has no such bias; add `W_k.bias` to `W_q.bias`, and \
                 configure `with_bias(true)`"
            ));
        }
        let expected = match attention.score.query.bias {
            Some(_) => 4,
            None => 3,
        };
        for (theirs, ours) in &NAMES[..expected] {
            if !result.applied.iter().any(|path| path == *ours) {
                return Err(format!(
                    "expected a tensor `{theirs}` after the given prefix, found only {}",
                    result.unused.join(", ")
                ));
            }
        }
        Ok(attention)
    }
}
