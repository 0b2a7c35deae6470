//! Files that are either wholly written or not there.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file whole or not at all, unless `may_replace` refuses ([`attention_plot::write_file_if`]): all files of
/// this crate are written here.
///
/// # Errors
/// [`Error::Io`] if the path has no file name, or the file cannot be created, written or renamed; the refusal.
pub(crate) fn write_atomic(
    path: impl AsRef<Path>,
    bytes: &[u8],
    may_replace: impl FnOnce() -> io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    attention_plot::write_file_if(path, bytes, may_replace)
        .map_err(|source| Error::io("write", path, source))
}
