//! Bytes that are read in order, with their position.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::ops::Range;

/// The largest length of a line.
const MAX_LINE: u64 = 1 << 16;

/// A file or an entry of one, read from its beginning and never beyond its end.
pub(crate) struct Input<R> {
    reader: R,
    /// The position of the next byte.
    pub(crate) at: u64,
    len: u64,
}

impl<'a> Input<BufReader<&'a File>> {
    pub(crate) fn of_file(file: &'a File, len: u64) -> Result<Self, String> {
        let mut reader = BufReader::new(file);
        reader.rewind().map_err(|error| error.to_string())?;
        let at = 0;
        Ok(Self { reader, at, len })
    }
}

impl<'a> Input<Cursor<&'a [u8]>> {
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        let (reader, at, len) = (Cursor::new(bytes), 0, bytes.len() as u64);
        Self { reader, at, len }
    }
}

impl<R: BufRead + Seek> Input<R> {
    /// Skips the next bytes without reading them.
    pub(crate) fn skip(&mut self, len: u64) -> Result<Range<u64>, String> {
        let bytes = self.next(len)?;
        let skipped = self.reader.seek_relative(len as i64);
        skipped.map_err(|error| error.to_string()).map(|()| bytes)
    }

    /// A number of `size` bytes, at most 8, in little-endian order.
    pub(crate) fn number(&mut self, size: usize) -> Result<u64, String> {
        let mut bytes = [0; 8];
        self.next(size as u64)?;
        let read = self.reader.read_exact(&mut bytes[..size]);
        read.map_err(|error| error.to_string())?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn content(&mut self, len: u64) -> Result<Vec<u8>, String> {
        self.next(len)?;
        let mut content = vec![0; len as usize];
        let read = self.reader.read_exact(&mut content);
        read.map_err(|error| error.to_string()).map(|()| content)
    }

    pub(crate) fn text(&mut self, len: u64) -> Result<String, String> {
        let content = self.content(len)?;
        Ok(String::from_utf8_lossy(&content).into_owned())
    }

    /// The text up to the end of a line.
    pub(crate) fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let reader = &mut self.reader;
        let read = reader.take(MAX_LINE).read_until(b'\n', &mut line);
        self.at += read.map_err(|error| error.to_string())? as u64;
        match line.pop() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&line).into_owned()),
            _ => Err("it has a line without an end".to_string()),
        }
    }

    /// The range of the next `len` bytes, which are then skipped.
    fn next(&mut self, len: u64) -> Result<Range<u64>, String> {
        let (start, left) = (self.at, self.len - self.at);
        if len > left {
            return Err(format!(
                "expected {len} bytes at byte {start}, got {left}, the last ones: a copy that was cut off?"
            ));
        }
        self.at += len;
        Ok(start..self.at)
    }
}
