//! Zip archives: their entries, stored or compressed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, copy, sink};
use std::ops::Range;

use zip::read::{ArchiveOffset, Config, ZipFile};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive, ZipReadOptions};

use crate::element_type::BIG_ENDIAN;
use crate::foreign::{self, DISTRIBUTED};
use crate::text::shown;

/// The largest pickle or JSON: names and shapes of some hundred thousand tensors. A compressed one could expand to any
/// size.
pub(crate) const MAX_HEADER: u64 = 64 << 20;

/// The largest size of an entry that is a single word.
const MAX_WORD: u64 = 64;

/// An open archive.
pub(crate) struct Archive {
    zip: ZipArchive<BufReader<File>>,
    /// The common prefix of all entries' names: a folder, which PyTorch names after the file.
    root: String,
}

/// The content of an entry.
pub(crate) enum Contents {
    /// Bytes of the file, and their checksum if there is one.
    Stored {
        bytes: Range<u64>,
        crc32: Option<u32>,
    },
    /// Bytes that must be decompressed from the entry.
    Compressed { index: usize },
}

impl Archive {
    pub(crate) fn open(file: File) -> Result<Self, String> {
        if is_several(&file).unwrap_or(false) {
            return Err(foreign::refused(DISTRIBUTED));
        }
        // By itself zip 9.4.1 searches for the start of the archive, because other bytes may precede it. If the name of
        // the first entry has 30 bytes, as for a file whose stem has 21, it mistakes the second entry for the first.
        let config = Config {
            archive_offset: ArchiveOffset::Known(0),
        };
        let zip = ZipArchive::with_config(config, BufReader::new(file)).map_err(|error| {
            format!("expected a zip archive that is whole: {error}; a copy that was cut off?")
        })?;
        let root = String::new();
        Ok(Self { zip, root })
    }

    /// Whether there is an entry of this name; its shortest folder becomes the root.
    pub(crate) fn find_root(&mut self, name: &str) -> Result<bool, String> {
        let roots = self.names_with_end(name).into_iter();
        let roots = roots.filter(|root| root.is_empty() || root.ends_with('/'));
        let Some(root) = roots.min_by_key(String::len) else {
            return Ok(false);
        };
        self.root = root;
        if self.index("byteorder").is_ok() && self.small("byteorder", MAX_WORD)? != b"little" {
            return Err(BIG_ENDIAN.to_string());
        }
        Ok(true)
    }

    /// The names with this suffix, without the suffix.
    pub(crate) fn names_with_end(&self, end: &str) -> BTreeSet<String> {
        let names = self.zip.file_names().flatten();
        let names = names.filter_map(|name| name.strip_suffix(end).map(str::to_string));
        names.collect()
    }

    /// The file.
    #[cfg(feature = "hdf5")]
    pub(crate) fn into_file(self) -> File {
        self.zip.into_inner().into_inner()
    }

    /// The content of an entry of at most `most` bytes.
    pub(crate) fn small(&mut self, name: &str, most: u64) -> Result<Vec<u8>, String> {
        let (content, len) = self.start(name, most)?;
        match len > most {
            true => Err(format!("its entry `{name}` has more than {most} bytes")),
            false => Ok(content),
        }
    }

    /// The first bytes of an entry, at most `most`, and the size of the entry.
    pub(crate) fn start(&mut self, name: &str, most: u64) -> Result<(Vec<u8>, u64), String> {
        let index = self.index(name)?;
        let entry = self.entry(index)?;
        let (len, mut start) = (entry.size(), Vec::new());
        let read = entry.take(most).read_to_end(&mut start);
        read.map_err(|error| format!("its entry `{}` cannot be read: {error}", shown(name)))?;
        Ok((start, len))
    }

    fn index(&self, name: &str) -> Result<usize, String> {
        let index = self.zip.index_for_name(&format!("{}{name}", self.root));
        let key = name.strip_prefix("data/").unwrap_or(name);
        index.ok_or_else(|| format!("expected a storage `{}`, got none", shown(key)))
    }

    /// An entry, decompressed, whose checksum is compared at its end. A checksum of 0 means none: `torch.save` has an
    /// option not to write one.
    fn entry(&mut self, index: usize) -> Result<ZipFile<'_, BufReader<File>>, String> {
        let crc32 = self.zip.by_index_raw(index).map(|entry| entry.crc32());
        let options = ZipReadOptions::new().ignore_crc32(crc32.is_ok_and(|crc32| crc32 == 0));
        let entry = self.zip.by_index_with_options(index, options);
        entry.map_err(unreadable)
    }

    /// The place of an entry's bytes.
    pub(crate) fn contents(&mut self, name: &str) -> Result<Contents, String> {
        let index = self.index(name)?;
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
    pub(crate) fn unzip(&mut self, index: usize, range: Range<usize>) -> Result<Vec<u8>, String> {
        let mut entry = self.entry(index)?;
        let mut content = Vec::new();
        copy(&mut (&mut entry).take(range.start as u64), &mut sink())
            // One byte more, so that the end of the entry is reached, where its checksum is compared.
            .and_then(|_| entry.take(range.len() as u64 + 1).read_to_end(&mut content))
            .map_err(|error| format!("its storage cannot be read: {error}"))?;
        if content.len() < range.len() {
            return Err("its storage ends before its elements".to_string());
        }
        content.truncate(range.len());
        Ok(content)
    }
}

/// Whether more precedes the end of a zip archive than the archive itself: several archives, one after the other.
fn is_several(mut file: &File) -> std::io::Result<bool> {
    // The record at the end, and the largest size of the two 64-bit records before it.
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
