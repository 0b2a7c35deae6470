//! The tensors of one file, or of the shards that an index names.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::Value;
use tensor_files::{StoredTensor, TensorFile, shown};

use super::json::{kind, read_object};

/// The field of an index that has the file of each tensor.
const WEIGHT_MAP: &str = "weight_map";

/// Tensors by their names, whichever file each is in.
pub(super) struct Checkpoint {
    files: Vec<TensorFile>,
    /// The file of each tensor, and its name there.
    names: BTreeMap<String, (usize, String)>,
}

/// A tensor that is not read, of one of the files.
pub struct Found {
    pub(super) stored: StoredTensor,
    file: usize,
}

impl Checkpoint {
    /// Opens the file at `path`; an index, which ends in `.json`, with all of its shards. No element is read.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            return Self::of_index(path);
        }
        let file = TensorFile::open(path).map_err(|error| error.to_string())?;
        let names = file.names().iter();
        let names = names.map(|name| (name.clone(), (0, name.clone())));
        Ok(Self {
            names: names.collect(),
            files: vec![file],
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
        let mut checkpoint = Self {
            files: Vec::new(),
            names: BTreeMap::new(),
        };
        let mut places = BTreeMap::new();
        let mut listed = Vec::new();
        for (name, shard) in weight_map {
            let shard = checked_shard(name, shard)?;
            let place = match places.get(shard) {
                Some(place) => *place,
                None => {
                    let file = TensorFile::open(folder.join(shard));
                    let file =
                        file.map_err(|error| format!("shard `{}`: {error}", shown(shard)))?;
                    let place = checkpoint.files.len();
                    // Those that the index does not list are there, too.
                    let names = file.names().iter();
                    let names = names.map(|name| (name.clone(), (place, name.clone())));
                    checkpoint.names.extend(names);
                    checkpoint.files.push(file);
                    places.insert(shard, place);
                    place
                }
            };
            if !checkpoint.files[place].names().contains(name) {
                return Err(format!(
                    "expected the tensor `{}` in the shard `{}`, which has none of this name",
                    shown(name),
                    shown(shard)
                ));
            }
            listed.push((name.clone(), (place, name.clone())));
        }
        checkpoint.names.extend(listed);
        Ok(checkpoint)
    }

    /// The same tensors by other names.
    ///
    /// # Errors
    /// If two get the same name.
    pub(super) fn renamed(mut self, rename: impl Fn(&str) -> String) -> Result<Self, String> {
        for (name, place) in std::mem::take(&mut self.names) {
            let new = rename(&name);
            if let Some((_, other)) = self.names.insert(new.clone(), place) {
                let [new, other, name] = [&new, &other, &name].map(|name| shown(name));
                return Err(format!(
                    "expected one tensor `{new}`, got both `{other}` and `{name}`"
                ));
            }
        }
        Ok(self)
    }

    /// The names that begin with `prefix`, in order.
    pub(super) fn names_from(&self, prefix: &str) -> impl Iterator<Item = &String> {
        let names = self.names.range(prefix.to_string()..);
        names.map(|(name, _)| name)
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &String> {
        self.names.keys()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The tensor of a name; `None` if there is none.
    pub(super) fn find(&self, name: &str) -> Option<Result<Found, String>> {
        let (file, name) = self.names.get(name)?;
        let stored = self.files[*file].find(name);
        let found = stored.map(|stored| Found {
            stored,
            file: *file,
        });
        Some(found.map_err(|error| error.to_string()))
    }

    /// The elements of a tensor, row by row, in little-endian order.
    pub(super) fn read(&self, found: &Found) -> Result<Vec<u8>, String> {
        let elements = self.files[found.file].read(&found.stored);
        elements.map_err(|error| error.to_string())
    }
}

impl Found {
    /// The tensor, changed before it is read.
    pub fn map(self, change: impl FnOnce(StoredTensor) -> StoredTensor) -> Self {
        Self {
            stored: change(self.stored),
            file: self.file,
        }
    }
}

/// The name of the shard of a tensor. It is a file beside the index, and no other.
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
