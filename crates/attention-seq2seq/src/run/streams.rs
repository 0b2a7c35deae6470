//! Pairs that came through a pipe, kept in the folder of their run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{DataSource, RunConfig, RunDir};
use crate::data::pair_file::PairFile;
use crate::error::Result;

/// The beginning of the name of a kept stream, followed by its checksum.
const STREAM: &str = "pairs-";

impl RunDir {
    /// Keeps the content of a stream of pairs in the folder, which is created if necessary, and returns its path: it is
    /// read again to evaluate, and when training continues. [`create`](Self::create) removes the streams of an earlier
    /// run.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file system refuses.
    pub fn keep_stream(&self, stream: &PairFile) -> Result<PathBuf> {
        self.check_lock()?;
        self.make()?;
        let path = self.stream_file(stream)?;
        self.write(&path, stream.bytes())?;
        Ok(path)
    }

    /// The path under which [`keep_stream`](Self::keep_stream) keeps a stream.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the current folder is not known.
    pub fn stream_file(&self, stream: &PairFile) -> Result<PathBuf> {
        let crc32 = crc32fast::hash(stream.bytes());
        Ok(self.absolute()?.join(format!("{STREAM}{crc32:08x}.tsv")))
    }

    /// Resolves the paths of the streams that the folder keeps: a run may be moved together with them.
    pub(super) fn resolve_streams(&self, data: &mut DataSource) -> Result<()> {
        let folder = self.absolute()?;
        data.each_file(|file| {
            if file.to_str().and_then(stream_checksum).is_some() {
                *file = folder.join(&*file);
            }
        });
        Ok(())
    }

    /// Settings as stored in a manifest: with only the names of streams that the folder keeps.
    pub(super) fn settings(&self, config: &RunConfig) -> Result<RunConfig> {
        let mut settings = config.clone();
        let folder = self.absolute()?;
        settings.data.each_file(|file| {
            let name = file.strip_prefix(&folder).ok().and_then(Path::to_str);
            if let Some(name) = name.filter(|name| stream_checksum(name).is_some()) {
                *file = name.into();
            }
        });
        Ok(settings)
    }

    /// Removes the streams that the folder keeps, except those of these data.
    pub(super) fn remove_streams(&self, data: &DataSource) -> Result<()> {
        let mut kept = Vec::new();
        data.clone()
            .each_file(|file| kept.extend(file.file_name().map(OsStr::to_owned)));
        for file in fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let crc32 = name.to_str().and_then(stream_checksum);
            // Other files may have such names.
            let is_its = |bytes: Vec<u8>| Some(crc32fast::hash(&bytes)) == crc32;
            if crc32.is_some() && !kept.contains(&name) && fs::read(file.path()).is_ok_and(is_its) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }
}

/// The checksum in a name made by [`RunDir::stream_file`].
fn stream_checksum(name: &str) -> Option<u32> {
    let crc32 = name.strip_prefix(STREAM)?.strip_suffix(".tsv")?;
    (crc32.len() == 8).then(|| u32::from_str_radix(crc32, 16).ok())?
}
