//! A writer of files that are wholly written or not there.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file whole or not at all: a temporary file in the same folder is flushed to disk and renamed.
///
/// A file of that name is replaced; if writing fails it stays as it was, and the temporary file is removed. The folder
/// must exist. A symbolic link is replaced by the file, not followed.
///
/// # Errors
/// If the path has no file name, or the file cannot be created, written or renamed.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_path(path)?;
    write_new(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| {
            // The first failure is the one to report; a temporary file that was never created cannot be removed either.
            let _ = fs::remove_file(&temporary);
        })?;
    sync_folder(path);
    Ok(())
}

/// A name beside `path` that no other process, and no other call of this process, uses.
fn temporary_path(path: &Path) -> io::Result<PathBuf> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{call}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// Creates the temporary file. A killed process of the same id may have left one of this name: it is truncated.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the rename itself survive a power cut, where folders can be flushed. The file is complete either way, so a
/// file system that cannot do this is no error.
fn sync_folder(path: &Path) {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if cfg!(unix)
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}
