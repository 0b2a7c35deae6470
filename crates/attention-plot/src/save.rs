//! Saving figures, in the format that a name asks for.

use std::path::Path;

use crate::PlotError;
use crate::file::{folder_of, replace};

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
