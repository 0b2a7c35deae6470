//! The zip archive that `torch.save` writes since PyTorch 1.6.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, copy, sink};
use std::ops::Range;
use std::rc::Rc;

use zip::read::{ArchiveOffset, Config, ZipFile};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive, ZipReadOptions};

use crate::foreign::{self, DISTRIBUTED};
use crate::objects::{self, BIG_ENDIAN};
use crate::pickle::Pickle;
use crate::stored::{Place, Tensors};
use crate::text::shown;

/// The longest pickle: names and shapes of some hundred thousand tensors. A compressed one could be of any length.
const MAX_PICKLE: u64 = 64 << 20;

/// The longest entry that is one word.
const MAX_WORD: u64 = 64;

/// An open archive.
pub(crate) struct Archive {
    zip: ZipArchive<BufReader<File>>,
    /// The beginning of all entries' names: a folder, which PyTorch names after the file.
    root: String,
}

/// The content of an entry.
pub(crate) enum Contents {
    /// Bytes of the file, and their checksum if there is one.
    Stored {
        bytes: Range<u64>,
        crc32: Option<u32>,
    },
    /// Bytes that come out of the entry.
    Compressed { index: usize },
}

/// The tensors of an archive's pickle.
pub(crate) fn tensors(file: File) -> Result<Tensors, String> {
    let mut archive = Archive::open(file)?;
    match archive.small("byteorder", MAX_WORD)?.as_deref() {
        None | Some(b"little") => {}
        _ => return Err(BIG_ENDIAN.to_string()),
    }
    let pickle = archive.small("data.pkl", MAX_PICKLE)?.unwrap_or_default();
    let pickle = Pickle::read(&mut pickle.as_slice())?;
    let archive = Rc::new(RefCell::new(archive));
    objects::tensors(pickle, move |key| {
        Ok(Place::Entry(archive.clone(), key.to_string()))
    })
}

impl Archive {
    fn open(file: File) -> Result<Self, String> {
        if is_several(&file).unwrap_or(false) {
            return Err(foreign::refused(DISTRIBUTED));
        }
        // By itself zip 9.4.1 looks for the start of the archive, as something may stand before it. Where the name of
        // the first entry has 30 bytes, as in a file whose stem has 21, it takes the second entry for the first.
        let config = Config {
            archive_offset: ArchiveOffset::Known(0),
        };
        let zip = ZipArchive::with_config(config, BufReader::new(file)).map_err(|error| {
            format!("expected a zip archive that is whole: {error}; a copy that was cut off?")
        })?;
        let names = || zip.file_names().flatten();
        if let Some(format) = names().find_map(|name| foreign::of_entry(&name)) {
            return Err(foreign::refused(format));
        }
        let roots = names().filter_map(|name| name.strip_suffix("data.pkl").map(str::to_string));
        let roots = roots.filter(|root| root.is_empty() || root.ends_with('/'));
        let root = roots
            .min_by_key(String::len)
            .ok_or("expected a zip archive with an entry `data.pkl`, as `torch.save` writes it")?;
        Ok(Self { zip, root })
    }

    /// The content of an entry of at most `most` bytes, if it is there.
    fn small(&mut self, name: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        let Some(index) = self.index(name) else {
            return Ok(None);
        };
        let entry = self.entry(index)?;
        let mut content = Vec::new();
        let read = entry.take(most + 1).read_to_end(&mut content);
        read.map_err(|error| format!("its entry `{name}` cannot be read: {error}"))?;
        if content.len() as u64 > most {
            return Err(format!("its entry `{name}` has more than {most} bytes"));
        }
        Ok(Some(content))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.zip.index_for_name(&format!("{}{name}", self.root))
    }

    /// An entry, uncompressed, whose checksum is compared at its end. A checksum of 0 is none: `torch.save` has an
    /// option to write none.
    fn entry(&mut self, index: usize) -> Result<ZipFile<'_, BufReader<File>>, String> {
        let crc32 = self.zip.by_index_raw(index).map(|entry| entry.crc32());
        let options = ZipReadOptions::new().ignore_crc32(crc32.is_ok_and(|crc32| crc32 == 0));
        let entry = self.zip.by_index_with_options(index, options);
        entry.map_err(unreadable)
    }

    /// Where the storage with a key is.
    pub(crate) fn storage(&mut self, key: &str) -> Result<Contents, String> {
        let missing = || format!("expected a storage `{}`, got none", shown(key));
        let index = self.index(&format!("data/{key}")).ok_or_else(missing)?;
        let entry = self.zip.by_index_raw(index).map_err(unreadable)?;
        if entry.compression() != CompressionMethod::Stored {
            return Ok(Contents::Compressed { index });
        }
        if entry.compressed_size() != entry.size() {
            return Err("its storage has two lengths".to_string());
        }
        let start = entry.data_start().unwrap_or(u64::MAX);
        Ok(Contents::Stored {
            bytes: start..start.saturating_add(entry.size()),
            crc32: Some(entry.crc32()).filter(|&crc32| crc32 != 0),
        })
    }

    /// A range of the bytes of a compressed entry.
    pub(crate) fn uncompressed(
        &mut self,
        index: usize,
        range: Range<usize>,
    ) -> Result<Vec<u8>, String> {
        let mut entry = self.entry(index)?;
        let mut content = Vec::new();
        copy(&mut (&mut entry).take(range.start as u64), &mut sink())
            // One more, so that the end of the entry is seen, where its checksum is compared.
            .and_then(|_| entry.take(range.len() as u64 + 1).read_to_end(&mut content))
            .map_err(|error| format!("its storage cannot be read: {error}"))?;
        if content.len() < range.len() {
            return Err("its storage ends before its elements".to_string());
        }
        content.truncate(range.len());
        Ok(content)
    }
}

/// Whether more lies before the end of a zip archive than the archive: others, one behind the other.
fn is_several(mut file: &File) -> std::io::Result<bool> {
    // The record at the end, and the most bytes of the two of 64 bits before it.
    let (mut end, long_end) = ([0; 22], 76);
    let start = file.seek(SeekFrom::End(-22))?;
    file.read_exact(&mut end)?;
    let number = |at: usize| u32::from_le_bytes([end[at], end[at + 1], end[at + 2], end[at + 3]]);
    let [len, offset] = [number(12), number(16)].map(u64::from);
    let is_end = end.starts_with(b"PK\x05\x06") && offset < u32::MAX.into();
    Ok(is_end && start > offset + len + long_end)
}

fn unreadable(error: ZipError) -> String {
    format!("its zip archive cannot be read: {error}")
}
