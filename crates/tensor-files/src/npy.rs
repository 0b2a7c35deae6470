//! NumPy's `.npy`, a single array, and `.npz`, a zip archive of arrays.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use serde_json::Value;

use crate::ElementType;
use crate::archive::Archive;
use crate::input::Input;
use crate::layout::Layout;
use crate::stored::{Place, StoredTensor, Tensors};
use crate::text::shown;

/// The first bytes of an array.
pub(crate) const START: &[u8] = b"\x93NUMPY";

/// The name of a single array, the same as `numpy.savez` gives an array without a name.
const ALONE: &str = "arr_0";

/// The suffix of the names of entries.
pub(crate) const END: &str = ".npy";

/// The largest number of bytes before the elements.
const MAX_HEADER: u64 = 1 << 16;

/// Words and signs that Python writes differently from JSON.
#[rustfmt::skip] // a table
const SIGNS: [[&str; 2]; 7] =
    [["'", "\""], ["(", "["], [")", "]"], ["True", "true"], ["False", "false"], [",]", "]"], [",}", "}"]];

/// The array of a `.npy` file, `arr_0`.
pub(crate) fn tensor(file: &File, len: u64) -> Result<Tensors, String> {
    let start = Input::of_file(file, len)?.content(len.min(MAX_HEADER))?;
    let (layout, start) = layout(&start, len)?;
    let found = StoredTensor::new(layout, Place::Bytes(start as u64..len));
    Ok(Tensors::of([(ALONE.to_string(), Ok(found))].into()))
}

/// The arrays of an `.npz` file by the names of its entries. A header is read when its array is requested.
pub(crate) fn tensors(archive: Archive) -> Tensors {
    let names = archive.names_with_end(END);
    let archive = Rc::new(RefCell::new(archive));
    Tensors {
        names: names.clone(),
        find: Box::new(move |name| {
            let name = names.contains(name).then(|| format!("{name}{END}"))?;
            let start = archive.borrow_mut().start(&name, MAX_HEADER);
            let layout = start.and_then(|(start, len)| layout(&start, len));
            let place = |start| Place::Entry(archive.clone(), name, start);
            Some(layout.map(|(layout, start)| StoredTensor::new(layout, place(start))))
        }),
    }
}

/// The layout of an array in `len` bytes that begin with `start`, and the number of bytes before its elements.
fn layout(start: &[u8], len: u64) -> Result<(Layout, usize), String> {
    // Version 1 has a length of two bytes, 2 and 3 of four.
    let first = if start.get(6) == Some(&1) { 10 } else { 12 };
    let len_bytes = start.get(8..first).unwrap_or_default().iter().rev();
    let at = first + len_bytes.fold(0, |len, &byte| len << 8 | usize::from(byte));
    let text = String::from_utf8_lossy(start.get(first..at).unwrap_or_default());
    let text: String = text.chars().filter(|sign| !sign.is_whitespace()).collect();
    let signs = SIGNS.iter();
    let text = signs.fold(text, |text, [from, to]| text.replace(from, to));
    let read = || {
        let dict: Value = serde_json::from_str(&text).ok()?;
        let sizes = dict["shape"].as_array()?.iter();
        let sizes = sizes.map(|size| usize::try_from(size.as_u64()?).ok());
        let descr = dict["descr"].as_str()?.to_string();
        let is_fortran = dict["fortran_order"].as_bool()?;
        Some((descr, is_fortran, sizes.collect::<Option<_>>()?))
    };
    let (descr, is_fortran, shape) = read().ok_or_else(|| {
        let text = shown(&text);
        format!("expected `descr`, `fortran_order` and `shape` in its header, got `{text}`")
    })?;
    let bytes = len.saturating_sub(at as u64);
    let layout = Layout::in_order(ElementType::of(&descr)?, shape, is_fortran, bytes)?;
    Ok((layout, at))
}
