//! Saving: the format that a name asks for, and the whole file or none of it.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use crate::PlotError;

/// The format that the extension of a file's name stands for, in any case.
pub(crate) enum Format {
    Svg,
    Png,
    Html,
}

impl Format {
    /// `None` for an extension that no figure has.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_string_lossy().to_lowercase();
        match extension.as_str() {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// Saves a figure by [`write_file`].
pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    let folder = folder_of(path);
    if path.file_name().is_some() && !folder.is_dir() {
        return Err(PlotError::MissingFolder {
            path: path.into(),
            folder: folder.into(),
        });
    }
    replace(path, bytes, || Ok(())).map_err(|failure| PlotError::Io {
        path: path.into(),
        action: failure.action,
        source: failure.source,
    })
}

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
struct Failure {
    action: &'static str,
    source: io::Error,
}

fn replace(
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

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
