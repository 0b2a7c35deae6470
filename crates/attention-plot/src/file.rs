//! Saving: the format that a name asks for, and the whole file or none of it.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::PlotError;

/// What the extension of a file's name stands for, in any case.
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

/// Writes `bytes` beside `path` and renames them into place, so that no reader ever sees half a file and a failure
/// leaves what was there before.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    let failed = |action| {
        move |source| PlotError::Io {
            path: path.into(),
            action,
            source,
        }
    };
    let Some(name) = path.file_name() else {
        return Err(failed("finding a file name in the path")(
            io::ErrorKind::InvalidInput.into(),
        ));
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(PlotError::MissingFolder {
            path: path.into(),
            folder: folder.into(),
        });
    }

    let (mut file, temporary) = create_beside(folder, &name.to_string_lossy())
        .map_err(failed("creating a temporary file"))?;
    file.write_all(bytes).map_err(failed("writing"))?;
    file.sync_all().map_err(failed("writing"))?;
    drop(file); // Windows does not rename open files.
    fs::rename(&temporary.0, path).map_err(failed("renaming the temporary file"))
}

/// A new file in `folder`. The process and a counter make its name ours alone, also when threads save to one path; a
/// file that a killed process of the same number left behind is passed over.
fn create_beside(folder: &Path, name: &str) -> io::Result<(File, Temporary)> {
    static SAVES: AtomicU64 = AtomicU64::new(0);
    loop {
        let save = SAVES.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".{name}.{}-{save}.tmp", process::id()));
        match File::create_new(&path) {
            Ok(file) => return Ok((file, Temporary(path))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes the file when dropped; after a successful rename there is nothing left to remove.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
