//! The tensors of one file, or of all shards named by an index.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::rc::Rc;

use serde_json::Value;
use tensor_files::{FileFormat, StoredTensor, TensorFile, shown};

use crate::json::{kind, read_object};

/// The field of an index that maps tensors to files.
const WEIGHT_MAP: &str = "weight_map";

/// Tensors by name, across files.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    files: Rc<Vec<TensorFile>>,
    /// The file of each tensor, and its name there.
    names: Rc<BTreeMap<String, (usize, String)>>,
}

/// A tensor in one of the files, not read yet.
pub struct Found {
    pub(crate) stored: StoredTensor,
    file: usize,
}

impl Checkpoint {
    /// Opens the file at `path`; if it is an index, which ends in `.json`, all of its shards. No element is read.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let extension = path.extension();
        if extension.is_some_and(|extension| extension == "json") {
            return Self::of_index(path);
        }
        let file = TensorFile::open(path).map_err(|error| error.reason().to_string())?;
        let names = file.names().iter();
        let names = names.map(|name| (name.clone(), (0, name.clone())));
        Ok(Self {
            names: Rc::new(names.collect()),
            files: Rc::new(vec![file]),
        })
    }

    fn of_index(path: &Path) -> Result<Self, String> {
        let index = read_object(path)?;
        let weight_map = match index.get(WEIGHT_MAP) {
            Some(Value::Object(weight_map)) => weight_map,
            other => {
                let got = other.map_or("none".to_string(), kind);
                return Err(format!(
                    "`{WEIGHT_MAP}`: expected the file of each tensor, got {got}"
                ));
            }
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let (mut files, mut names) = (Vec::new(), BTreeMap::new());
        let mut places = BTreeMap::new();
        let mut listed = Vec::new();
        for (name, shard) in weight_map {
            let shard = checked_shard(name, shard)?;
            let place = match places.get(shard) {
                Some(place) => *place,
                None => {
                    let file = TensorFile::open(folder.join(shard))
                        .map_err(|error| format!("shard `{}`: {}", shown(shard), error.reason()))?;
                    let place = files.len();
                    // Tensors that the index does not list are included.
                    let of_file = file.names().iter();
                    names.extend(of_file.map(|name| (name.clone(), (place, name.clone()))));
                    files.push(file);
                    places.insert(shard, place);
                    place
                }
            };
            if !files[place].names().contains(name) {
                return Err(format!(
                    "expected the tensor `{}` in the shard `{}`, which has none of this name",
                    shown(name),
                    shown(shard)
                ));
            }
            listed.push((name.clone(), (place, name.clone())));
        }
        names.extend(listed);
        let (files, names) = (Rc::new(files), Rc::new(names));
        let checkpoint = Self { files, names };
        let total = index.get("metadata").map(|about| &about["total_size"]);
        checkpoint.check_size(total.and_then(Value::as_f64).unwrap_or(0.0))?;
        Ok(checkpoint)
    }

    /// # Errors
    /// If the tensors have fewer bytes than the index says. A model saved in half precision may state the size before
    /// conversion, 4 bytes per element; tensors of an unsupported type have no size.
    fn check_size(&self, total: f64) -> Result<(), String> {
        let (mut len, mut bytes) = (0, 0);
        for name in self.names() {
            let Some(Ok(Found { stored, .. })) = self.find(name) else {
                return Ok(());
            };
            let elements = stored.shape().iter().product::<usize>();
            len += elements;
            bytes += elements * stored.element_type().size();
        }
        if bytes as f64 >= total || total == 4.0 * len as f64 {
            return Ok(());
        }
        Err(format!(
            "`total_size`: expected {total} bytes in the shards, got {bytes}, as of parts of tensors: save them whole, \
             by `get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))`"
        ))
    }

    /// The tensors under other names.
    ///
    /// # Errors
    /// If two tensors get the same name.
    pub(crate) fn renamed(self, rename: impl Fn(&str) -> String) -> Result<Self, String> {
        let mut renamed = BTreeMap::new();
        for (name, place) in Rc::unwrap_or_clone(self.names) {
            let new = rename(&name);
            if let Some((_, other)) = renamed.insert(new.clone(), place) {
                let [new, other, name] = [&new, &other, &name].map(|name| shown(name));
                return Err(format!(
                    "expected one tensor `{new}`, got both `{other}` and `{name}`"
                ));
            }
        }
        let names = Rc::new(renamed);
        Ok(Self { names, ..self })
    }

    /// The format of the first file; all shards have the same.
    pub(crate) fn format(&self) -> FileFormat {
        let first = self.files.first();
        first.map_or(FileFormat::Safetensors, TensorFile::format)
    }

    /// The names that begin with `prefix`, in order.
    pub(crate) fn names_from(&self, prefix: &str) -> impl Iterator<Item = &String> {
        let names = self.names.range(prefix.to_string()..);
        names.map(|(name, _)| name)
    }

    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &String> {
        self.names.keys()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The tensor with this name; `None` if there is none.
    pub(crate) fn find(&self, name: &str) -> Option<Result<Found, String>> {
        let &(file, ref name) = self.names.get(name)?;
        let found = self.files[file].find(name);
        let found = found.map(|stored| Found { stored, file });
        Some(found.map_err(|error| error.reason().to_string()))
    }

    /// The elements of a tensor, row by row, in little-endian order.
    pub(crate) fn read(&self, found: &Found) -> Result<Vec<u8>, String> {
        let elements = self.files[found.file].read(&found.stored);
        elements.map_err(|error| error.reason().to_string())
    }
}

impl Found {
    /// The tensor, changed before it is read.
    pub fn map(self, change: impl FnOnce(StoredTensor) -> StoredTensor) -> Self {
        let stored = change(self.stored);
        Self { stored, ..self }
    }
}

/// The name of a tensor's shard. It must be a file next to the index.
fn checked_shard<'a>(tensor: &str, shard: &'a Value) -> Result<&'a str, String> {
    let name = shard.as_str().filter(|name| {
        let mut parts = Path::new(name).components();
        matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none()
    });
    name.ok_or_else(|| {
        format!(
            "`{WEIGHT_MAP}` of the tensor `{}`: expected the name of a file beside the index, got {}",
            shown(tensor),
            kind(shard)
        )
    })
}
