//! Files of tensors, of which only what is asked for is read.

mod archive;
mod layout;
mod legacy;
mod machine;
mod objects;
mod pickle;
mod safetensors;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use burn::tensor::{DType, TensorData};

use archive::{Archive, Contents};
pub(super) use layout::Layout;

/// Bytes that tell the format of a file.
const START: u64 = 512;

/// Where the magic word of a tar archive stands, and the word.
const TAR: (usize, &[u8]) = (257, b"ustar");

/// The opcode `PROTO`, with which a pickle begins.
const PICKLE: u8 = 0x80;

const BIG_ENDIAN: &str =
    "expected numbers in little-endian order, got them as a big-endian machine writes them";

/// The longest text of a file that an error tells.
const SHOWN: usize = 100;

/// The tensors of a file by their names.
pub(super) struct Tensors {
    pub(super) names: BTreeSet<String>,
    find: Box<FindTensor>,
}

/// Finds the tensor of a name, or the reason why it cannot be read.
type FindTensor = dyn Fn(&str) -> Option<Result<Stored, String>>;

impl Tensors {
    pub(super) fn find(&self, name: &str) -> Option<Result<Stored, String>> {
        (self.find)(name)
    }
}

/// A tensor in a file.
pub(super) struct Stored {
    pub(super) layout: Layout,
    place: Place,
}

impl Stored {
    /// The part of the tensor that `view` leaves of it.
    pub(super) fn map(self, view: impl FnOnce(Layout) -> Layout) -> Self {
        Self {
            layout: view(self.layout),
            place: self.place,
        }
    }
}

/// A storage in a file.
enum Place {
    /// Bytes of the file.
    Bytes(Range<u64>),
    /// The storage of an archive that has this key.
    Entry(Rc<RefCell<Archive>>, String),
}

/// An open file.
pub(super) struct TensorFile {
    file: File,
    len: u64,
}

impl TensorFile {
    /// The file at `path`, whose first bytes tell its format, and what tensors it has.
    pub(super) fn open(path: &Path) -> Result<(Self, Tensors), String> {
        let unreadable = |error: std::io::Error| error.to_string();
        let file = File::open(path).map_err(unreadable)?;
        let len = file.metadata().map_err(unreadable)?.len();
        let mut start = Vec::new();
        let read = (&file).take(START).read_to_end(&mut start);
        read.map_err(unreadable)?;
        let tensors = if start.starts_with(b"PK\x03\x04") {
            // Both handles have one position, which each sets before it reads.
            archive::tensors(file.try_clone().map_err(unreadable)?)?
        } else if legacy::starts(&start) {
            legacy::tensors(&file)?
        } else if safetensors::starts(&start) {
            safetensors::tensors(&file, len)?
        } else {
            return Err(unknown(&start));
        };
        Ok((Self { file, len }, tensors))
    }

    /// The elements of a tensor, row by row.
    pub(super) fn read(&self, stored: &Stored) -> Result<TensorData, String> {
        let Stored { layout, place } = stored;
        let mut elements = match place {
            Place::Bytes(bytes) => layout.gather(|range| self.bytes(bytes, None, range))?,
            Place::Entry(archive, key) => {
                let mut archive = archive.borrow_mut();
                match archive.storage(key)? {
                    Contents::Stored { bytes, crc32 } => {
                        layout.gather(|range| self.bytes(&bytes, crc32, range))?
                    }
                    Contents::Compressed { index } => {
                        let window = layout.window()?;
                        let content = archive.uncompressed(index, window.clone())?;
                        let within = |range: Range<usize>| {
                            range.start - window.start..range.end - window.start
                        };
                        layout.gather(|range| Ok(content[within(range)].to_vec()))?
                    }
                }
            }
        };
        if let DType::Bool(_) = layout.dtype() {
            elements
                .iter_mut()
                .for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(TensorData::from_bytes_vec(
            elements,
            layout.shape().to_vec(),
            layout.dtype(),
        ))
    }

    /// A range of a storage, whose checksum is compared where the range is all of it.
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

/// A text of a file as a part of a line.
pub(super) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(SHOWN).collect();
    let rest = if chars.next().is_some() { ".." } else { "" };
    format!("{}{rest}", start.escape_debug())
}

/// Why a file that starts with `start` is not read.
fn unknown(start: &[u8]) -> String {
    let (at, word) = TAR;
    let got = match start {
        [] => "an empty file".to_string(),
        _ if start.get(at..).is_some_and(|rest| rest.starts_with(word)) => {
            "a tar archive, as PyTorch before 0.1.10 wrote: load and save it by a later one"
                .to_string()
        }
        [first, ..] if *first == PICKLE => {
            "a pickle that `torch.save` did not write: save the state dict by `torch.save`"
                .to_string()
        }
        _ => format!(
            "one that begins with `{}`",
            start[..start.len().min(16)].escape_ascii()
        ),
    };
    format!("expected a file that `torch.save` or `safetensors` wrote, got {got}")
}
