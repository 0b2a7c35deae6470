//! Files that are written whole or not at all.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

/// Writes a file so that no reader ever sees half of it, and so that a failure leaves the file that was there.
///
/// The bytes go to a temporary file in the same folder, which is flushed to disk and renamed.
///
/// - The folder must exist.
/// - A file of that name is replaced. The new one has the permissions of a new file, not those of the old one.
/// - A symbolic link of that name is replaced, not followed.
/// - After a failure the file is as it was, and the temporary file is removed. Only a killed process leaves one behind,
///   with a name from `.attention-` to `.tmp`.
/// - Threads and processes that write the same file do not disturb each other: the last one to finish wins.
/// - The new name survives a power cut where the system can flush a folder; the file is complete either way.
///
/// # Errors
///
/// If the path names no file, or the temporary file cannot be created, written or renamed: what the operating system
/// said, without the path.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("loss.csv");
/// attention_plot::write_file(&path, b"1,0.5\n2,0.25\n")?;
/// assert_eq!(std::fs::read(&path)?, b"1,0.5\n2,0.25\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_file(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    write_file_if(path, bytes, || Ok(()))
}

/// As [`write_file`], unless `may_replace` refuses, which is asked last: when the bytes are on disk and only the rename
/// is left. For a writer that may lose its right to the folder while it writes.
///
/// # Errors
///
/// As [`write_file`], and the refusal: the file is then as it was.
pub fn write_file_if(
    path: impl AsRef<Path>,
    bytes: &[u8],
    may_replace: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    replace(path.as_ref(), bytes, may_replace).map_err(|failure| failure.source)
}

/// The step that failed, and the reason.
pub(crate) struct Failure {
    #[cfg_attr(
        not(feature = "figures"),
        expect(dead_code, reason = "the errors of figures name it")
    )]
    pub(crate) action: &'static str,
    pub(crate) source: io::Error,
}

pub(crate) fn replace(
    path: &Path,
    bytes: &[u8],
    may_replace: impl FnOnce() -> io::Result<()>,
) -> Result<(), Failure> {
    let failed = |action| move |source| Failure { action, source };
    if path.file_name().is_none() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        return Err(failed("finding a file name in the path")(source));
    }
    let folder = folder_of(path);
    // A file that tempfile creates itself is closed to other users; this one is to stay, with the usual permissions.
    let mut file = tempfile::Builder::new()
        .prefix(".attention-")
        .suffix(".tmp")
        .make_in(folder, |temporary| File::create_new(temporary))
        .map_err(failed("creating a temporary file"))?;
    file.as_file_mut()
        .write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .map_err(failed("writing"))?;
    may_replace().map_err(failed("replacing the file"))?;
    // Windows does not rename open files.
    file.into_temp_path()
        .persist(path)
        .map_err(|error| failed("renaming the temporary file")(error.error))?;
    sync_folder(folder);
    Ok(())
}

/// Makes the rename itself survive a power cut. The file is complete either way, so a system that cannot flush a folder
/// is no error.
fn sync_folder(folder: &Path) {
    if cfg!(unix)
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
