//! Open files.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::archive::Contents;
#[cfg(feature = "hdf5")]
use crate::hdf5;
use crate::stored::{Place, StoredTensor, Tensors};
use crate::text::shown;
use crate::{
    ElementType, FileFormat, archived, foreign, legacy, message_pack, mxnet, npy, paddle,
    safetensors,
};

/// The number of first bytes that tell the format of a file.
const START: u64 = 512;

/// The reason why a file or a tensor cannot be read. It names the file, what was expected and what came.
#[derive(Error)]
#[error("cannot read {what}: {reason}")]
pub struct Error {
    /// The file, and the tensor, if any.
    what: String,
    reason: String,
}

/// Prints the sentence, because `main` prints the `Debug` form of its error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    fn of(path: &Path) -> impl Fn(String) -> Self {
        let what = format!("`{}`", path.display());
        move |reason| Self {
            what: what.clone(),
            reason,
        }
    }

    /// Only the reason, for callers that name file and tensor themselves.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// An open file, with the names of its tensors.
pub struct TensorFile {
    path: PathBuf,
    format: FileFormat,
    file: File,
    len: u64,
    tensors: Tensors,
    /// The id that its tensors carry.
    id: u64,
}

impl fmt::Debug for TensorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TensorFile");
        shown.field("names", self.names()).finish_non_exhaustive()
    }
}

impl TensorFile {
    /// Opens the file at `path`. No element is read.
    ///
    /// # Errors
    /// If it cannot be read, or its format is unknown.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let opened = Self::read_names(path);
        let has_names = opened.as_ref().is_ok_and(|file| !file.names().is_empty());
        match foreign::of_path(path).filter(|_| !has_names) {
            Some(format) => Err(Error::of(path)(foreign::refused(format))),
            None => opened.map_err(Error::of(path)),
        }
    }

    /// The format, found from its content.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// The names of its tensors, including those that cannot be read.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.tensors.names
    }

    /// The tensor with this name.
    ///
    /// # Errors
    /// If there is no such tensor, or it cannot be read.
    pub fn find(&self, name: &str) -> Result<StoredTensor, Error> {
        let found = (self.tensors.find)(name);
        let found = found.unwrap_or_else(|| Err("no tensor has this name".to_string()));
        let mut tensor = found.map_err(|reason| Error {
            what: format!("`{}` of `{}`", shown(name), self.path.display()),
            reason,
        })?;
        tensor.file = self.id;
        Ok(tensor)
    }

    /// The elements of a tensor of this file, row by row, in little-endian order.
    ///
    /// # Errors
    /// If the file no longer has them as they were written, or the tensor belongs to another file.
    pub fn read(&self, tensor: &StoredTensor) -> Result<Vec<u8>, Error> {
        self.elements(tensor).map_err(Error::of(&self.path))
    }

    /// Opens the file at `path`, whose first bytes tell its format, and finds its tensors.
    fn read_names(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| error.to_string();
        let file = File::open(path).map_err(unreadable)?;
        let len = file.metadata().map_err(unreadable)?.len();
        let mut start = Vec::new();
        let read = (&file).take(START).read_to_end(&mut start);
        read.map_err(unreadable)?;
        let (format, tensors) = Self::tensors(&file, len, &start)?;
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            path: path.to_path_buf(),
            format,
            file,
            len,
            tensors,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// The format and the tensors of a file that starts with `start`. All handles share one position, which each sets
    /// before it reads.
    fn tensors(file: &File, len: u64, start: &[u8]) -> Result<(FileFormat, Tensors), String> {
        use FileFormat::{Flax, Keras, MxNet, NumPy, PyTorch, Safetensors};
        let handle = || file.try_clone().map_err(|error| error.to_string());
        let (format, tensors) = match start {
            #[cfg(feature = "hdf5")]
            _ if start.starts_with(hdf5::START) => (Keras, hdf5::tensors(handle()?, 0..len)),
            _ if start.starts_with(b"PK\x03\x04") => return archived::tensors(handle()?),
            _ if legacy::starts(start) => (PyTorch, legacy::tensors(file, len)),
            _ if safetensors::starts(start) => (Safetensors, safetensors::tensors(file, len)),
            _ if start.starts_with(npy::START) => (NumPy, npy::tensor(file, len)),
            _ if start.starts_with(mxnet::START) => (MxNet, mxnet::tensors(file, len)),
            _ if let Some(format) = foreign::of_start(start) => {
                return Err(foreign::refused(format));
            }
            [0x80, ..] => return paddle::tensors(file, len),
            _ if message_pack::starts(start) => (Flax, message_pack::tensors(file, len)),
            _ => return Err(foreign::unknown(start)),
        };
        let malformed = |reason| match format {
            Keras | MxNet | Flax => format!("it begins as {format} and is malformed: {reason}"),
            _ => reason,
        };
        Ok((format, tensors.map_err(malformed)?))
    }

    fn elements(&self, tensor: &StoredTensor) -> Result<Vec<u8>, String> {
        if tensor.file != self.id {
            return Err("expected a tensor of this file, got one of another".to_string());
        }
        let StoredTensor { layout, place, .. } = tensor;
        let mut elements = match place {
            Place::Bytes(bytes) => layout.gather(|range| self.bytes(bytes, None, range))?,
            Place::Entry(archive, name, start) => {
                let mut archive = archive.borrow_mut();
                match archive.contents(name)? {
                    Contents::Stored { bytes, crc32 } => {
                        let crc32 = crc32.filter(|_| *start == 0);
                        let bytes = bytes.start.saturating_add(*start as u64)..bytes.end;
                        layout.gather(|range| self.bytes(&bytes, crc32, range))?
                    }
                    Contents::Compressed { index } => {
                        let Range { start: first, end } = layout.window()?;
                        let content = archive.unzip(index, start + first..start + end)?;
                        layout.gather(|it| Ok(content[it.start - first..][..it.len()].to_vec()))?
                    }
                }
            }
        };
        if layout.element_type() == ElementType::Bool {
            elements
                .iter_mut()
                .for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(elements)
    }

    /// A range of a storage; its checksum is compared if the range covers all of it.
    fn bytes(
        &self,
        storage: &Range<u64>,
        crc32: Option<u32>,
        range: Range<usize>,
    ) -> Result<Vec<u8>, String> {
        let len = range.len() as u64;
        let start = storage.start.saturating_add(range.start as u64);
        let end = start.saturating_add(len);
        if end > storage.end || end > self.len {
            return Err(format!(
                "its elements end at byte {end}, its storage at {} of the file's {}",
                storage.end, self.len
            ));
        }
        let mut bytes = vec![0; range.len()];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| format!("its elements cannot be read: {error}"))?;
        let is_whole = start == storage.start && end == storage.end;
        if is_whole && crc32.is_some_and(|crc32| crc32fast::hash(&bytes) != crc32) {
            return Err(
                "its elements have another checksum than they were written with".to_string(),
            );
        }
        Ok(bytes)
    }
}
