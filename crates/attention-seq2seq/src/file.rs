//! Files that are written atomically: whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file so that no reader ever sees half of it, and a failure leaves the previous file intact.
///
/// The bytes go to a temporary file in the same folder, which is flushed to disk and renamed.
///
/// - The folder must exist.
/// - A file of that name is replaced. The new one has a new file's permissions, not the old one's.
/// - A symbolic link of that name is replaced, not followed.
/// - After a failure the file is as it was, and the temporary file is removed. Only a killed process leaves one behind,
///   with a name from `.attention-` to `.tmp`.
/// - Threads and processes that write the same file do not disturb each other: the last to finish wins.
/// - The new name survives a power cut where the system can flush a folder; the file is complete either way.
///
/// # Errors
/// [`Error::Io`] if the path names no file, or the temporary file cannot be created, written or renamed.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("loss.csv");
/// attention_seq2seq::file::write_file(&path, b"1,0.5\n2,0.25\n")?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"1,0.5\n2,0.25\n");
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
pub fn write_file(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    write_file_if(path, bytes, || Ok(()))
}

/// As [`write_file`], unless `may_replace` refuses, which is called last: when the bytes are on disk and only the
/// rename is left. For a writer that may lose its right to the folder while it writes.
///
/// # Errors
/// As [`write_file`], and the refusal, after which the file is as before.
pub fn write_file_if(
    path: impl AsRef<Path>,
    bytes: &[u8],
    may_replace: impl FnOnce() -> io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    replace(path, bytes, may_replace).map_err(|source| Error::io("write", path, source))
}

fn replace(
    path: &Path,
    bytes: &[u8],
    may_replace: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if path.file_name().is_none() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(io::Error::new(kind, "the path names no file"));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_named = !folder.as_os_str().is_empty();
    let folder = if is_named { folder } else { Path::new(".") };
    // A file that tempfile creates itself is closed to other users; this one is to stay, with the usual permissions.
    let mut file = tempfile::Builder::new()
        .prefix(".attention-")
        .suffix(".tmp")
        .make_in(folder, |temporary| File::create_new(temporary))?;
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    may_replace()?;
    // Windows does not rename open files.
    let renamed = file.into_temp_path().persist(path);
    renamed.map_err(|error| error.error)?;
    // The rename survives a power cut if the system can flush a folder; failing to flush is no error.
    if cfg!(unix)
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
    Ok(())
}
