//! The bytes of a file one after the other, with their place.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::ops::Range;

/// The longest text: a name.
const MAX_TEXT_LEN: u64 = 1 << 16;

/// A file that is read from its beginning, and never beyond its end.
pub(crate) struct Input<'a> {
    file: BufReader<&'a File>,
    /// The place of the next byte.
    pub(crate) at: u64,
    len: u64,
}

impl<'a> Input<'a> {
    pub(crate) fn new(file: &'a File, len: u64) -> Result<Self, String> {
        let mut file = BufReader::new(file);
        file.rewind().map_err(|error| error.to_string())?;
        Ok(Self { file, at: 0, len })
    }

    /// The next bytes, which are not read.
    pub(crate) fn skip(&mut self, len: u64) -> Result<Range<u64>, String> {
        let bytes = self.next(len)?;
        let skipped = self.file.seek_relative(len as i64);
        skipped.map_err(|error| error.to_string()).map(|()| bytes)
    }

    /// A number of `size` bytes, at most 8, the lowest first.
    pub(crate) fn number(&mut self, size: usize) -> Result<u64, String> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes[..size])?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn text(&mut self, len: u64) -> Result<String, String> {
        let mut text = vec![0; len.min(MAX_TEXT_LEN) as usize];
        self.fill(&mut text)?;
        self.skip(len - text.len() as u64)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.next(bytes.len() as u64)?;
        let read = self.file.read_exact(bytes);
        read.map_err(|error| error.to_string())
    }

    /// The place of the next `len` bytes, behind which the next then are.
    fn next(&mut self, len: u64) -> Result<Range<u64>, String> {
        let (start, left) = (self.at, self.len - self.at);
        if len > left {
            return Err(format!(
                "expected {len} bytes at byte {start}, got the {left} to the end of the file: a copy that was cut off?"
            ));
        }
        self.at += len;
        Ok(start..self.at)
    }
}
