//! MessagePack as written by `flax.serialization`: maps, in which an array is an extension: shape, type and bytes.
//!
//! `rmpv` reads all elements into memory. Here arrays are found without being read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

use crate::ElementType;
use crate::input::Input;
use crate::layout::MAX_AXES;
use crate::path::Path;
use crate::stored::{FoundTensor, StoredTensor, Tensors};

/// The number of the extension for arrays.
const ARRAY: u64 = 1;

/// The largest nesting depth of maps.
const MAX_DEPTH: usize = 64;

/// The kind of a value. A `Scalar` is a number, a boolean or nil.
#[derive(Clone, Copy, Debug, PartialEq)]
#[rustfmt::skip] // a list
enum Kind { Scalar, Bytes, List, Map, Extension }

/// Whether a file that starts with `start` is a map whose first key is a short text, like the map of a small model.
pub(crate) fn starts(start: &[u8]) -> bool {
    matches!(
        start,
        [0x81..=0x8f, 0xa1..=0xbf, ..] | [0xde, _, _, 0xa1..=0xbf, ..]
    )
}

/// The arrays by their paths, `params/W_q/kernel`.
pub(crate) fn tensors(file: &File, len: u64) -> Result<Tensors, String> {
    let mut walk = Walk {
        input: Input::of_file(file, len)?,
        path: Path::default(),
        found: BTreeMap::new(),
    };
    walk.value(0)?;
    Ok(Tensors::of(walk.found))
}

struct Walk<'a> {
    input: Input<BufReader<&'a File>>,
    path: Path,
    found: BTreeMap<String, FoundTensor>,
}

impl Walk<'_> {
    fn value(&mut self, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "its maps lie in each other more than {MAX_DEPTH} deep"
            ));
        }
        match self.head()? {
            (Kind::Scalar, _) => {}
            (Kind::Bytes, len) => drop(self.input.skip(len)?.start),
            (kind @ (Kind::List | Kind::Map), len) => {
                for index in 0..len {
                    let key = match kind {
                        Kind::Map => self.text()?,
                        _ => index.to_string(),
                    };
                    let len = self.path.push("/", &key)?;
                    self.value(depth + 1)?;
                    self.path.name.truncate(len);
                }
            }
            (Kind::Extension, len) => {
                let kind = self.input.number(1)?;
                let end = self.input.at.saturating_add(len);
                if kind == ARRAY {
                    let array = self.array()?;
                    self.found.insert(self.path.name.clone(), array);
                }
                let Some(rest) = end.checked_sub(self.input.at) else {
                    return Err(format!("an array goes on after byte {end}"));
                };
                self.input.skip(rest)?;
            }
        }
        Ok(())
    }

    fn array(&mut self) -> Result<FoundTensor, String> {
        self.expect(Kind::List)?;
        let axes = self.expect(Kind::List)?.min(MAX_AXES as u64 + 1);
        let shape = (0..axes).map(|_| self.expect(Kind::Scalar));
        let shape = shape.collect::<Result<Vec<_>, _>>()?;
        let element_type = self.text()?;
        let len = self.expect(Kind::Bytes)?;
        let bytes = self.input.skip(len)?;
        let element_type = ElementType::of(&element_type);
        Ok(element_type.and_then(|own| StoredTensor::in_order(own, shape, bytes)))
    }

    fn text(&mut self) -> Result<String, String> {
        let len = self.expect(Kind::Bytes)?;
        self.input.text(len)
    }

    /// The number or the length of a value of this kind.
    fn expect(&mut self, kind: Kind) -> Result<u64, String> {
        let at = self.input.at;
        match self.head()? {
            (got, len) if got == kind => Ok(len),
            (got, _) => Err(format!("expected {kind:?} at byte {at}, got {got:?}")),
        }
    }

    /// The kind of a value, with its number or the length of its content.
    fn head(&mut self) -> Result<(Kind, u64), String> {
        let first = self.input.number(1)? as u8;
        // A length in the byte itself, or the size of a following one.
        let (kind, len, size) = match first {
            0x00..=0x7f => (Kind::Scalar, first, 0),
            0x80..=0x8f => (Kind::Map, first & 0xf, 0),
            0x90..=0x9f => (Kind::List, first & 0xf, 0),
            0xa0..=0xbf => (Kind::Bytes, first & 0x1f, 0),
            0xc0..=0xc3 | 0xe0..=0xff => (Kind::Scalar, 0, 0),
            0xc4..=0xc6 => (Kind::Bytes, 0, 1 << (first - 0xc4)),
            0xc7..=0xc9 => (Kind::Extension, 0, 1 << (first - 0xc7)),
            0xca | 0xcb => (Kind::Scalar, 0, 4 << (first - 0xca)),
            0xcc..=0xd3 => (Kind::Scalar, 0, 1 << (first % 4)),
            0xd4..=0xd8 => (Kind::Extension, 1 << (first - 0xd4), 0),
            0xd9..=0xdb => (Kind::Bytes, 0, 1 << (first - 0xd9)),
            0xdc | 0xdd => (Kind::List, 0, 2 << (first - 0xdc)),
            0xde | 0xdf => (Kind::Map, 0, 2 << (first - 0xde)),
        };
        let lowest_first = self.input.number(size)?;
        let number = lowest_first.swap_bytes().checked_shr(64 - 8 * size as u32);
        Ok((kind, u64::from(len) | number.unwrap_or(0)))
    }
}
