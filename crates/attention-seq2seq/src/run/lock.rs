//! One training at a time in a folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

/// The right to write into the folder of a run, until it is dropped; from [`RunDir::lock`](super::RunDir::lock).
///
/// The operating system releases it when a process ends, however it ends. It is void once its file is removed or
/// replaced, or the folder moved: another training may then run beside this one. So the [`RunDir`](super::RunDir) that
/// created it, and its clones, check it before they write.
#[derive(Debug)]
pub struct RunLock(Arc<LockFile>);

impl RunLock {
    /// Takes the lock of `folder`, which must exist.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        // The opened file may be removed before it is locked; then the next one is tried.
        const TRIES: usize = 8;
        let mut tries = 1..TRIES;
        loop {
            let taken = LockFile::take(folder)?;
            match taken.check() {
                Err(_) if tries.next().is_some() => {}
                checked => return checked.map(|()| Self(Arc::new(taken))),
            }
        }
    }

    pub(super) fn file(&self) -> &Arc<LockFile> {
        &self.0
    }
}

/// A file that is locked as long as it is open.
#[derive(Debug)]
pub(super) struct LockFile {
    file: File,
    path: PathBuf,
}

impl LockFile {
    fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        let file = open(&path).map_err(|source| Error::io("open", &path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            // A file system without locks does not protect its folders.
            Err(TryLockError::Error(source)) if source.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path, source)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("the folder {}", folder.display());
                let expected =
                    "a folder that no training writes into (wait, or name another with --out)";
                return Err(Error::config(what, expected, "a training under way"));
            }
        }
        Ok(Self { file, path })
    }

    /// Checks that nobody else can have locked the folder since: the locked file is still the one at its path. (On
    /// Windows it cannot be removed or moved while it is locked.)
    ///
    /// # Errors
    /// [`Error::Config`] if it is not, [`Error::Io`] if that cannot be determined.
    pub(super) fn check(&self) -> Result<()> {
        let found = match is_at(&self.file, &self.path) {
            Ok(true) => return Ok(()),
            Ok(false) => "another",
            Err(error) if error.kind() == ErrorKind::NotFound => "none",
            Err(source) => return Err(Error::io("find", &self.path, source)),
        };
        let what = format!("the lock {}", self.path.display());
        let expected = "the file that this training locked (without it another may write there, so this one stopped)";
        Err(Error::config(what, expected, found))
    }
}

#[cfg(not(windows))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Opens the file so that nobody can remove or rename it, or a folder that contains it, while it is open.
#[cfg(windows)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    const FILE_SHARE_READ: u32 = 1;
    const FILE_SHARE_WRITE: u32 = 2;
    OpenOptions::new()
        .create(true)
        .append(true)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE)
        .open(path)
}

/// Whether the file at `path` is the opened one.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (open, found) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((open.dev(), open.ino()) == (found.dev(), found.ino()))
}

/// Whether there is a file at `path`: this system has no number to identify the opened one.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    std::fs::metadata(path).map(|_| true)
}
