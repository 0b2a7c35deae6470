//! Copies of the reference folders, changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use attention_tests::reference_path;
use serde_json::{Map, Value, json};

/// The folder of a family among the reference files.
pub(super) fn original(family: &str) -> PathBuf {
    reference_path(&format!("hugging_face/{family}"))
}

/// Copies the files of a folder, and of the folders in it.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir(&copy).unwrap();
            copy_files(&path, &copy);
        } else {
            std::fs::copy(&path, copy).unwrap();
        }
    }
}

/// A copy of a folder, which is removed when it is dropped.
pub(super) struct FolderCopy(tempfile::TempDir);

/// A tensor in a file: what the header says but for its place, and its elements.
pub(super) type Stored = (Map<String, Value>, Vec<u8>);

impl FolderCopy {
    pub(super) fn of(family: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_files(&original(family), folder.path());
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn remove(&self, file: &str) {
        std::fs::remove_file(self.path().join(file)).unwrap();
    }

    pub(super) fn write(&self, file: &str, content: &[u8]) {
        std::fs::write(self.path().join(file), content).unwrap();
    }

    /// Changes the fields of a file of JSON.
    pub(super) fn change_json(&self, file: &str, change: impl FnOnce(&mut Map<String, Value>)) {
        let text = std::fs::read(self.path().join(file)).unwrap();
        let mut object: Map<String, Value> = serde_json::from_slice(&text).unwrap();
        change(&mut object);
        self.write(file, &serde_json::to_vec(&object).unwrap());
    }

    /// A copy whose config has another value in a field.
    pub(super) fn with_field(family: &str, field: &str, value: Value) -> Self {
        let copy = Self::of(family);
        copy.set(field, value);
        copy
    }

    /// Sets a field of the config.
    pub(super) fn set(&self, field: &str, value: Value) {
        self.change_json("config.json", |it| drop(it.insert(field.into(), value)));
    }

    /// Removes a field of the config.
    pub(super) fn unset(&self, field: &str) {
        self.change_json("config.json", |config| drop(config.remove(field)));
    }

    /// Gives tensors other names: at least one.
    pub(super) fn rename(&self, name: impl Fn(&str) -> String) {
        self.change_tensors(|tensors| {
            assert!(tensors.keys().any(|own| name(own) != *own));
            let all = std::mem::take(tensors).into_iter();
            tensors.extend(all.map(|(own, tensor)| (name(&own), tensor)));
        });
    }

    /// Gives one tensor another name.
    pub(super) fn rename_one(&self, from: &str, to: &str) {
        self.rename(|name| if name == from { to } else { name }.to_string());
    }

    /// Copies a tensor to another name.
    pub(super) fn copy_tensor(&self, from: &str, to: &str) {
        self.change_tensors(|all| drop(all.insert(to.into(), all[from].clone())));
    }

    /// Changes the tensors of `model.safetensors`.
    pub(super) fn change_tensors(&self, change: impl FnOnce(&mut BTreeMap<String, Stored>)) {
        const FILE: &str = "model.safetensors";
        let content = std::fs::read(self.path().join(FILE)).unwrap();
        let (len, rest) = content.split_first_chunk().unwrap();
        let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
        let mut all: BTreeMap<String, Map<String, Value>> = serde_json::from_slice(header).unwrap();
        all.remove("__metadata__");
        let tensors = all.into_iter().map(|(name, mut info)| {
            let offsets = info.remove("data_offsets").unwrap();
            let [start, end] = [0, 1].map(|at| offsets[at].as_u64().unwrap() as usize);
            (name, (info, data[start..end].to_vec()))
        });
        let mut tensors: BTreeMap<String, Stored> = tensors.collect();
        change(&mut tensors);
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (name, (mut info, elements)) in tensors {
            let offsets = json!([data.len(), data.len() + elements.len()]);
            info.insert("data_offsets".to_string(), offsets);
            header.insert(name, info.into());
            data.extend(elements);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let len = (header.len() as u64).to_le_bytes();
        self.write(FILE, &[&len[..], &header, &data].concat());
    }
}
