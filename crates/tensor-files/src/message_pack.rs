//! MessagePack as `flax.serialization` writes it: maps, in which an array is an extension: its shape, type and bytes.
//!
//! `rmpv` reads all elements into memory. Here arrays are found and left where they are.

use std::collections::BTreeMap;
use std::fs::File;

use crate::ElementType;
use crate::input::Input;
use crate::layout::MAX_AXES;
use crate::path::Path;
use crate::stored::{FoundTensor, StoredTensor, Tensors};

/// The number of the extension that is an array.
const ARRAY: u64 = 1;

/// The kind of a value. A `Scalar` is a number, a truth value or nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Scalar,
    Bytes,
    List,
    Map,
    Extension,
}

/// Whether a file that starts with `start` is a map whose first key is a text.
pub(crate) fn starts(start: &[u8]) -> bool {
    let key = match start {
        [0x81..=0x8f, key, ..] | [0xde, _, _, key, ..] | [0xdf, _, _, _, _, key, ..] => *key,
        _ => return false,
    };
    matches!(key, 0xa1..=0xbf | 0xd9)
}

/// The arrays by their paths, `params/W_q/kernel`.
pub(crate) fn tensors(file: &File, len: u64) -> Result<Tensors, String> {
    let mut walk = Walk {
        input: Input::new(file, len)?,
        found: BTreeMap::new(),
    };
    let walked = walk.value(&mut Path::default());
    walked.map_err(|reason| format!("its MessagePack is malformed: {reason}"))?;
    Ok(Tensors::of(walk.found))
}

struct Walk<'a> {
    input: Input<'a>,
    found: BTreeMap<String, FoundTensor>,
}

impl Walk<'_> {
    fn value(&mut self, path: &mut Path) -> Result<(), String> {
        match self.head()? {
            (Kind::Scalar, _) => {}
            (Kind::Bytes, len) => drop(self.input.skip(len)?.start),
            (kind @ (Kind::List | Kind::Map), len) => {
                for index in 0..len {
                    let key = match kind {
                        Kind::Map => self.text()?,
                        _ => index.to_string(),
                    };
                    path.under(&key, |path| self.value(path))?;
                }
            }
            (Kind::Extension, len) => {
                let kind = self.input.number(1)?;
                let end = self.input.at.saturating_add(len);
                if kind == ARRAY {
                    let array = self.array()?;
                    self.found.insert(path.name.clone(), array);
                }
                let rest = end.checked_sub(self.input.at);
                let rest = rest.ok_or_else(|| format!("an array goes on after byte {end}"))?;
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

    /// The kind of a value, and its number or the length of its content.
    fn head(&mut self) -> Result<(Kind, u64), String> {
        let first = self.input.number(1)? as u8;
        // The first of those that follow each other, whose lengths are numbers of 1, 2, 4 and 8 bytes.
        let (kind, of, least) = match first {
            0x00..=0x7f => return Ok((Kind::Scalar, first.into())),
            0x80..=0x8f => return Ok((Kind::Map, (first & 0xf).into())),
            0x90..=0x9f => return Ok((Kind::List, (first & 0xf).into())),
            0xa0..=0xbf => return Ok((Kind::Bytes, (first & 0x1f).into())),
            0xc0..=0xc3 | 0xe0..=0xff => return Ok((Kind::Scalar, 0)),
            0xd4..=0xd8 => return Ok((Kind::Extension, 1 << (first - 0xd4))),
            0xc4..=0xc6 => (Kind::Bytes, 0xc4, 1),
            0xc7..=0xc9 => (Kind::Extension, 0xc7, 1),
            0xca | 0xcb => (Kind::Scalar, 0xca, 4),
            0xcc..=0xcf => (Kind::Scalar, 0xcc, 1),
            0xd0..=0xd3 => (Kind::Scalar, 0xd0, 1),
            0xd9..=0xdb => (Kind::Bytes, 0xd9, 1),
            0xdc | 0xdd => (Kind::List, 0xdc, 2),
            0xde | 0xdf => (Kind::Map, 0xde, 2),
        };
        let size = least << (first - of);
        let lowest_first = self.input.number(size)?;
        Ok((kind, lowest_first.swap_bytes() >> (64 - 8 * size)))
    }
}
