#![doc = include_str!("../README.md")]

mod checkpoint;
pub mod json;
mod multi_head;
pub mod packages;
mod reason;
mod recurrent;
mod state_dict;
mod weight_norm;
mod wrapped;

pub use checkpoint::Found;
pub use multi_head::{load_multi_head_attention, read_multi_head_attention};
pub use reason::Reason;
pub use recurrent::load_recurrent;
pub use state_dict::{Place, StateDict};
pub use wrapped::unwrapped;

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a state dict could not be loaded. Names the file, what was expected and what came.
#[derive(Error)]
#[error("cannot load `{path}`: {reason}", path = path.display())]
pub struct ImportError {
    path: PathBuf,
    reason: Reason,
}

/// Prints the sentence, because `main` prints the `Debug` form of its error.
impl fmt::Debug for ImportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl ImportError {
    /// An error with a reason, for the file at `path`.
    pub fn of<R: Into<Reason>>(path: &Path) -> impl Fn(R) -> Self {
        move |reason| Self {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }

    /// The file, or the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was expected and what came.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

/// The result of `read` for the tensors with a prefix in the file at `path`.
fn read_file<T>(
    path: impl AsRef<Path>,
    prefix: &str,
    read: impl FnOnce(&StateDict) -> Result<T, Reason>,
) -> Result<T, ImportError> {
    let path = path.as_ref();
    let file = StateDict::open(path, prefix);
    file.and_then(|file| read(&file))
        .map_err(ImportError::of(path))
}
