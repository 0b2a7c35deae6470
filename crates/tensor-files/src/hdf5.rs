//! HDF5 as Keras writes it: groups, and in them arrays in one piece.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Mutex;

use hdf5_pure::{Dataset, Datatype, DatatypeByteOrder, Error, FormatError, Group, Source};

use crate::ElementType;
use crate::path::Path;
use crate::stored::{FoundTensor, StoredTensor, Tensors};

/// The first bytes.
pub(crate) const START: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Bytes of a file that are HDF5.
struct Part {
    file: Mutex<File>,
    bytes: Range<u64>,
}

impl Source for Part {
    fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    fn read_at(&self, offset: u64, content: &mut [u8]) -> Result<(), FormatError> {
        let failed = |reason: String| FormatError::Source(format!("at byte {offset}: {reason}"));
        let left = self.len().checked_sub(offset);
        if left.is_none_or(|left| left < content.len() as u64) {
            return Err(failed(
                "the file ends: a copy that was cut off?".to_string(),
            ));
        }
        let start = SeekFrom::Start(self.bytes.start + offset);
        let mut file = self.file.lock().expect("no reader panics");
        let read = file.seek(start).and_then(|_| file.read_exact(content));
        read.map_err(|error| failed(error.to_string()))
    }
}

/// The arrays in these bytes of a file, by their paths, `layers/dense/vars/0`.
pub(crate) fn tensors(file: File, bytes: Range<u64>) -> Result<Tensors, String> {
    let (start, mut found) = (bytes.start, BTreeMap::new());
    let file = Mutex::new(file);
    let opened = hdf5_pure::File::from_source(Part { file, bytes });
    opened
        .map_err(text)
        .and_then(|file| visit(&file.root(), start, &mut Path::default(), &mut found))
        .map_err(|reason| format!("its HDF5 cannot be read: {reason}"))?;
    Ok(Tensors::of(found))
}

fn visit(
    group: &Group,
    start: u64,
    path: &mut Path,
    found: &mut BTreeMap<String, FoundTensor>,
) -> Result<(), String> {
    for (name, dataset) in group.iter_datasets().map_err(text)? {
        path.under(&name, |path| {
            found.insert(path.name.clone(), tensor(&dataset, start));
            Ok(())
        })?;
    }
    for (name, group) in group.iter_groups().map_err(text)? {
        path.under(&name, |path| visit(&group, start, path, found))?;
    }
    Ok(())
}

/// An array of a file whose HDF5 starts at byte `start`.
fn tensor(dataset: &Dataset, start: u64) -> FoundTensor {
    use hdf5_pure::Layout::Contiguous;

    let (kind, size, order) = match dataset.datatype().map_err(text)? {
        Datatype::FloatingPoint {
            size, byte_order, ..
        } => ("f", size, byte_order),
        Datatype::FixedPoint {
            size,
            byte_order,
            layout,
        } => (if layout.signed { "i" } else { "u" }, size, byte_order),
        Datatype::Opaque { size, .. } => ("V", size, DatatypeByteOrder::LittleEndian),
        other => return Err(format!("expected a tensor of real numbers, got {other}")),
    };
    let is_little = order == DatatypeByteOrder::LittleEndian;
    let descr = format!("{}{kind}{size}", if is_little { "<" } else { ">" });
    let shape = dataset.shape().map_err(text)?;
    let bytes = match dataset.layout().map_err(text)? {
        Contiguous {
            address: Some(at),
            size,
        } => {
            let at = start.saturating_add(at);
            at..at.saturating_add(size)
        }
        // Nothing was written.
        Contiguous { address: None, .. } => start..start,
        other => {
            return Err(format!(
                "expected an array in one piece without filters, as Keras writes it, got {other:?}"
            ));
        }
    };
    StoredTensor::in_order(ElementType::of_numpy(&descr)?, shape, bytes)
}

fn text(error: Error) -> String {
    error.to_string()
}
