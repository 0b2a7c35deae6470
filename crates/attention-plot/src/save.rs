//! Saving figures, in the format that a name asks for.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::PlotError;

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

/// Replaces a file by a figure, whole or not at all: the bytes go to a temporary file beside it, which is flushed to
/// disk and renamed.
pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    let failed = |action| {
        move |source| PlotError::Io {
            path: path.into(),
            action,
            source,
        }
    };
    if path.file_name().is_none() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        return Err(failed("finding a file name in the path")(source));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(PlotError::MissingFolder {
            path: path.into(),
            folder: folder.into(),
        });
    }
    // A file that tempfile creates itself is closed to other users; this one is to stay, with the usual permissions.
    let mut file = tempfile::Builder::new()
        .prefix(".attention-")
        .suffix(".tmp")
        .make_in(folder, |temporary| File::create_new(temporary))
        .map_err(failed("creating a temporary file"))?;
    let written = file.as_file_mut().write_all(bytes);
    let written = written.and_then(|()| file.as_file().sync_all());
    written.map_err(failed("writing"))?;
    // Windows does not rename open files.
    let renamed = file.into_temp_path().persist(path);
    renamed.map_err(|error| failed("renaming the temporary file")(error.error))?;
    // The rename itself survives a power cut where the system can flush a folder; one that cannot is no error.
    if cfg!(unix)
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
    Ok(())
}
