//! One training at a time in a folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result};

/// The right to write into the folder of a run, until it is dropped; from [`RunDir::lock`](super::RunDir::lock).
///
/// The operating system gives it back when a process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    /// Locked as long as it is open.
    _file: File,
}

impl RunLock {
    /// Of the folder at `folder`, which exists.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let refused = |action, source| Error::Io {
            action,
            path: path.clone(),
            source,
        };
        let file = file.map_err(|source| refused("open", source))?;
        match file.try_lock() {
            Ok(()) => {}
            // A file system without locks: nothing protects its folders.
            Err(TryLockError::Error(source)) if source.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(source)) => return Err(refused("lock", source)),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Config {
                    what: format!("the folder {}", folder.display()),
                    expected:
                        "a folder that no training writes into (wait, or name another with --out)"
                            .to_string(),
                    found: "a training under way".to_string(),
                });
            }
        }
        Ok(Self { _file: file })
    }
}
