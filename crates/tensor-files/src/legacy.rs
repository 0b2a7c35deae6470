//! The file that `torch.save` wrote before PyTorch 1.6, and still writes with `_use_new_zipfile_serialization=False`:
//! pickles, followed by all storages.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;

use crate::element_type::BIG_ENDIAN;
use crate::input::Input;
use crate::objects::{self, Elements, element_size, key_of, storage_of};
use crate::pickle::{Object, Pickle, Value};
use crate::stored::{Place, Tensors};
use crate::text::shown;

/// The number 0x1950a86a20f9469cfc6c, a pickle with which the file starts: in binary, and as text in protocol 0.
const MAGIC: [&[u8]; 2] = [
    b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
    b"119547037146038801333356",
];

/// The version of the file format.
const VERSION: i64 = 1001;

/// The number of bytes before each storage, which give the number of its elements.
const COUNT: usize = 8;

/// The number of bytes that contain the first pickle, with the number, in any protocol.
const FIRST: usize = 64;

/// Whether a file that starts with `start` has this format.
pub(crate) fn starts(start: &[u8]) -> bool {
    let first = &start[..start.len().min(FIRST)];
    MAGIC
        .iter()
        .any(|magic| first.windows(magic.len()).any(|window| window == *magic))
}

/// The tensors of its pickle.
pub(crate) fn tensors(file: &File, len: u64) -> Result<Tensors, String> {
    let mut file = Input::of_file(file, len)?;
    let _magic = Pickle::read(&mut file)?;
    let version = Pickle::read(&mut file)?.root;
    if version != Value::Int(VERSION) {
        return Err(format!(
            "expected its format to be {VERSION}, got {version:?}"
        ));
    }
    let system = Pickle::read(&mut file)?;
    if system.get(system.root, "little_endian") != Some(Value::Bool(true)) {
        return Err(BIG_ENDIAN.to_string());
    }
    let pickle = Pickle::read(&mut file)?;
    let keys = Pickle::read(&mut file)?;
    let places = places(&mut file, &pickle, &keys);
    objects::tensors(pickle, move |elements| match elements {
        Elements::Storage(key) => match places.get(&key) {
            Some(bytes) => Ok(Place::Bytes(bytes.clone())),
            None => Err(format!(
                "its storage `{}` is cut off, or behind one of a length that is not known",
                shown(&key)
            )),
        },
        Elements::Bytes(_) => Err("expected a tensor of PyTorch's, got an array of NumPy's".into()),
    })
}

/// The ranges of the storages, up to the first that disagrees with the pickle: they are consecutive, in the order of
/// `keys`.
fn places(
    file: &mut Input<BufReader<&File>>,
    pickle: &Pickle,
    keys: &Pickle,
) -> HashMap<String, Range<u64>> {
    let mut sizes = HashMap::new();
    for object in &pickle.objects {
        // A module may also be persistent: its class and its source.
        if let Object::Persistent(id) = object
            && let Ok(storage) = storage_of(pickle, *id)
        {
            sizes.insert(storage.key, (storage.len, element_size(storage.class)));
        }
    }
    let next = |key: &Value| {
        let key = key_of(keys, *key)?;
        let (len, size) = sizes.get(&key)?;
        let is_its = file.number(COUNT).ok()? == *len as u64;
        let len = (*len as u64).saturating_mul((*size)? as u64);
        let bytes = is_its.then(|| file.skip(len).ok()).flatten()?;
        Some((key, bytes))
    };
    let keys = keys.list(keys.root).unwrap_or_default().iter();
    keys.map_while(next).collect()
}
