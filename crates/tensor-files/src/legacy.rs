//! The file that `torch.save` wrote before PyTorch 1.6, and still writes with `_use_new_zipfile_serialization=False`:
//! pickles, and behind them all storages.

use std::collections::HashMap;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use crate::objects::{self, BIG_ENDIAN, Elements, element_size, key_of, storage_of};
use crate::pickle::{Object, Pickle, Value};
use crate::stored::{Place, Tensors};
use crate::text::shown;

/// The number 0x1950a86a20f9469cfc6c, with which the file starts as a pickle: in bytes, and in text of protocol 0.
const MAGIC: [&[u8]; 2] = [
    b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
    b"119547037146038801333356",
];

/// The number of its version.
const VERSION: i64 = 1001;

/// Bytes before each storage: the number of its elements.
const COUNT: u64 = 8;

/// Bytes of the first pickle, in which the number is, in any protocol.
const FIRST: usize = 64;

/// Whether a file that starts with `start` is one.
pub(crate) fn starts(start: &[u8]) -> bool {
    let first = &start[..start.len().min(FIRST)];
    MAGIC
        .iter()
        .any(|magic| first.windows(magic.len()).any(|window| window == *magic))
}

/// The tensors of its pickle.
pub(crate) fn tensors(file: impl Read + Seek) -> Result<Tensors, String> {
    let mut file = BufReader::new(file);
    file.rewind().map_err(|error| error.to_string())?;
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
    let places = places(&mut file, &pickle, &keys)?;
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

/// Where the bytes of each storage lie, up to the first that is not as the pickle says: one behind the other in the
/// order of `keys`.
fn places(
    file: &mut (impl Read + Seek),
    pickle: &Pickle,
    keys: &Pickle,
) -> Result<HashMap<String, Range<u64>>, String> {
    let mut sizes = HashMap::new();
    for object in &pickle.objects {
        // A module, too, may stand outside: its class and the text of its program.
        if let Object::Persistent(id) = object
            && let Ok(storage) = storage_of(pickle, *id)
        {
            sizes.insert(storage.key, (storage.len, element_size(storage.class)));
        }
    }
    let mut places = HashMap::new();
    let mut at = file.stream_position().map_err(|error| error.to_string())?;
    for key in keys.list(keys.root).unwrap_or_default() {
        let Some(key) = key_of(keys, *key) else {
            break;
        };
        let Some((len, Some(size))) = sizes.get(&key) else {
            break;
        };
        let mut count = [0; COUNT as usize];
        let found = file
            .seek(SeekFrom::Start(at))
            .and_then(|_| file.read_exact(&mut count));
        if found.is_err() || u64::from_le_bytes(count) != *len as u64 {
            break;
        }
        let start = at + COUNT;
        let Some(end) = (*len as u64)
            .checked_mul(*size as u64)
            .and_then(|len| start.checked_add(len))
        else {
            break;
        };
        places.insert(key, start..end);
        at = end;
    }
    Ok(places)
}
