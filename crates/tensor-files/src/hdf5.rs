//! HDF5 as written by Keras: groups that contain contiguous arrays.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Mutex;

use hdf5_pure::{Dataset, Datatype, DatatypeByteOrder, Error, FormatError, Group, Layout, Source};

use crate::ElementType;
use crate::path::Path;
use crate::stored::{FoundTensor, StoredTensor, Tensors};
use crate::text::shown;

/// The first bytes.
pub(crate) const START: &[u8] = b"\x89HDF\r\n\x1a\n";

/// The largest depth of groups to visit, which stops at a group that contains itself.
const MAX_DEPTH: usize = 32;

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
        let start = SeekFrom::Start(self.bytes.start.saturating_add(offset));
        let mut file = self.file.lock().expect("no reader panics");
        let read = file.seek(start).and_then(|_| file.read_exact(content));
        read.map_err(|error| FormatError::Source(format!("at byte {offset}: {error}")))
    }
}

/// The arrays in these bytes of a file, by their paths, `layers/dense/vars/0`; a `:0` at the end is removed.
pub(crate) fn tensors(file: File, bytes: Range<u64>) -> Result<Tensors, String> {
    let (start, mut found) = (bytes.start, BTreeMap::new());
    let file = Mutex::new(file);
    let file = hdf5_pure::File::from_source(Part { file, bytes }).map_err(text)?;
    visit(&file.root(), 0, start, &mut Path::default(), &mut found)?;
    Ok(Tensors::of(found))
}

fn visit(
    group: &Group,
    depth: usize,
    start: u64,
    path: &mut Path,
    found: &mut BTreeMap<String, FoundTensor>,
) -> Result<(), String> {
    for (name, dataset) in group.iter_datasets().map_err(text)? {
        // Keras 2 appends the number of a TensorFlow output to the name of a variable.
        let len = path.push("/", name.strip_suffix(":0").unwrap_or(&name))?;
        let other = found.insert(path.name.clone(), tensor(&dataset, start));
        if other.is_some() {
            let name = shown(&path.name);
            return Err(format!("expected one array `{name}`, got two"));
        }
        path.name.truncate(len);
    }
    for (name, group) in group.iter_groups().map_err(text)? {
        let len = path.push("/", &name)?;
        if depth < MAX_DEPTH {
            visit(&group, depth + 1, start, path, found)?;
        }
        path.name.truncate(len);
    }
    Ok(())
}

/// An array of a file whose HDF5 starts at byte `start`.
fn tensor(dataset: &Dataset, start: u64) -> FoundTensor {
    let (kind, size, order) = match dataset.datatype().map_err(text)? {
        Datatype::FloatingPoint {
            size,
            byte_order,
            layout,
        } if matches!((size, layout.exponent_size), (2, 5) | (4, 8) | (8, 11)) => {
            ('f', size, byte_order)
        }
        Datatype::FixedPoint {
            size,
            byte_order,
            layout,
        } => (if layout.signed { 'i' } else { 'u' }, size, byte_order),
        Datatype::Opaque { size, .. } => ('V', size, DatatypeByteOrder::LittleEndian),
        other => return Err(format!("expected a tensor of real numbers, got {other}")),
    };
    let is_little = order == DatatypeByteOrder::LittleEndian;
    let order = if is_little { '<' } else { '>' };
    let element_type = ElementType::of(&format!("{order}{kind}{size}"))?;
    let shape = dataset.shape().map_err(text)?;
    let layout = dataset.layout().map_err(text)?;
    let Layout::Contiguous { address, size } = layout else {
        return Err(format!(
            "expected an array in one piece without filters, got {layout:?}"
        ));
    };
    // A dataset that was never written has no address.
    let size = if address.is_some() { size } else { 0 };
    let start = start.saturating_add(address.unwrap_or(0));
    StoredTensor::in_order(element_type, shape, start..start.saturating_add(size))
}

fn text(error: Error) -> String {
    match error {
        Error::Format(FormatError::UnexpectedEof { .. }) => {
            format!("{error}: a copy that was cut off?")
        }
        _ => error.to_string(),
    }
}
