//! Files that are either wholly written or not there.

use std::fs;
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
    attention_plot::write_file_if(path, bytes, may_replace).map_err(|source| Error::Io {
        action: "write",
        path: path.to_path_buf(),
        source,
    })
}

/// Reads a whole file of UTF-8 text.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read or is not UTF-8.
pub(crate) fn read_to_string(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|source| Error::Io {
        action: "read",
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn impossible_places_are_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomic(folder.path().join("missing/a.txt"), b"x", || Ok(())).unwrap_err();
        assert!(error.to_string().contains("missing/a.txt"), "{error}");
        assert!(
            write_atomic("..", b"x", || Ok(()))
                .unwrap_err()
                .to_string()
                .contains("the path names no file")
        );
    }

    #[test]
    fn text_that_is_not_utf8_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latin1");
        fs::write(&path, [0xe9, b'\n']).unwrap();
        assert!(
            read_to_string(&path)
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
    }
}
