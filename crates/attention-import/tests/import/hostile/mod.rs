//! Files that lie, command or never end: each is an error of one line, and nothing in them runs.

mod endless;

use std::path::{Path, PathBuf};

use attention_core::AdditiveAttentionConfig;
use attention_tests::checkpoint::{
    CompressionMethod, View, call, dict, int, pickle, text, tuple, write_archive,
};
use attention_tests::{Array, assert_says, device};
use tempfile::TempDir;

use crate::fill;

/// Three storages: of `W_q.weight` [5, 2], `W_k.weight` [5, 3] and `w_v.weight` [1, 5].
const STORAGES: [(&str, usize); 3] = [("data/0", 10), ("data/1", 15), ("data/2", 5)];

/// A file in a folder of its own.
struct Checkpoint {
    folder: TempDir,
    method: CompressionMethod,
    /// All entries but the pickle.
    entries: Vec<(&'static str, Vec<u8>)>,
}

impl Checkpoint {
    fn new() -> Self {
        let storage = |(key, len): (&'static str, usize)| {
            let elements = (0..len).map(|index| index as f32 / 4.0);
            (key, elements.flat_map(f32::to_le_bytes).collect())
        };
        Self {
            folder: tempfile::tempdir().unwrap(),
            method: CompressionMethod::Stored,
            entries: STORAGES.map(storage).into(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("model.pt")
    }

    /// The query's weight of an attention that is loaded from a pickle.
    fn load(&self, pickle: &[u8]) -> Result<Array, String> {
        let entries = self.entries.iter().map(|(key, of)| (*key, &of[..]));
        let entries: Vec<(&str, &[u8])> = entries.collect();
        write_archive(&self.path(), self.method, pickle, &entries);
        load(&self.path())
    }

    /// The error of a state dict with another `W_q.weight`.
    fn error(&self, query: Vec<u8>) -> String {
        self.load(&state_dict(query, vec![])).unwrap_err()
    }
}

/// The query's weight of an attention from `path`.
fn load(path: &Path) -> Result<Array, String> {
    let attention = AdditiveAttentionConfig::new(2, 3, 5).init(&device::plain()[0]);
    let loaded = fill(attention, path, "");
    let loaded = loaded.map(|loaded| Array::read(loaded.score.query.weight.val()));
    loaded.map_err(|error| {
        let error = error.to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.len() < 1_000, "{error}");
        error
    })
}

fn view() -> View<'static> {
    View {
        storage: "0",
        len: 10,
        offset: 0,
        shape: &[5, 2],
        strides: &[2, 1],
    }
}

fn state_dict(query: Vec<u8>, more: Vec<(&str, Vec<u8>)>) -> Vec<u8> {
    let whole = |storage, len, shape, strides| {
        let view = view().with_storage(storage).with_len(len);
        view.with_shape(shape).with_strides(strides).pickled()
    };
    let key = whole("1", 15, &[5, 3], &[3, 1]);
    let value = whole("2", 5, &[1, 5], &[5, 1]);
    let mut items = vec![
        ("W_q.weight", query),
        ("W_k.weight", key),
        ("w_v.weight", value),
    ];
    items.extend(more);
    pickle(&dict(&items))
}

/// `W_q.weight` of the storage, transposed as Burn has it.
fn expected() -> Vec<f64> {
    let elements = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
    elements.map(|index| f64::from(index) / 4.0).into()
}

#[test]
fn an_honest_pickle_is_read() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let mut file = Checkpoint::new();
        file.method = method;
        let weight = file.load(&state_dict(view().pickled(), vec![])).unwrap();
        assert_eq!(weight.data, expected());
    }
}

#[test]
fn no_function_is_called() {
    let file = Checkpoint::new();
    let trace = file.folder.path().join("trace");
    let command = tuple(&[text(&format!("touch {}", trace.display()))]);
    let runs = call("os\nsystem", &command);
    let loaded = file.load(&state_dict(view().pickled(), vec![("run", runs.clone())]));
    assert_eq!(loaded.unwrap().data, expected());
    assert!(!trace.exists());

    assert_says(file.error(runs), ["`W_q.weight`", "got os.system"]);
    let builtins = call("builtins\neval", &command);
    assert_says(file.error(builtins), "got builtins.eval");
    assert!(!trace.exists());
}

#[test]
fn a_view_that_lies_is_an_error() {
    let file = Checkpoint::new();
    let beyond = "does not fit its storage of 10 elements";
    let endless = view().with_shape(&[1 << 40, 1 << 20]).with_strides(&[0, 0]);
    let views: [(View, &str); 8] = [
        (view().with_offset(1), beyond),
        (view().with_offset(i64::MAX), "does not fit"),
        (view().with_offset(-1), "not natural numbers"),
        (view().with_strides(&[-2, 1]), "not natural numbers"),
        (view().with_strides(&[1]), "does not fit"),
        (view().with_strides(&[i64::MAX, i64::MAX]), "does not fit"),
        (view().with_shape(&[1 << 40, 1 << 40]), "does not fit"),
        (endless, "expected the shape [5, 2]"),
    ];
    for (view, expected) in views {
        let error = format!("{view:?}: {}", file.error(view.pickled()));
        assert_says(error, ["`W_q.weight`", expected]);
    }
}

#[test]
fn a_storage_that_is_not_what_the_pickle_says_is_an_error() {
    let mut file = Checkpoint::new();
    let absent = file.error(view().with_storage("7").pickled());
    assert_says(absent, "`W_q.weight`: expected a storage `7`");
    let (storage, none) = (b"Pstorage\n".to_vec(), tuple(&[]));
    let arguments = [storage, int(0), none.clone(), none, int(0), int(0)];
    let of_text = call("torch._utils\n_rebuild_tensor_v2", &tuple(&arguments));
    assert_says(file.error(of_text), "its pickle has protocol 0");
    let negative = file.error(view().with_len(-1).pickled());
    assert_says(negative, "with a class, a key and a length");

    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        file.method = method;
        file.entries[0].1.truncate(39);
        let long = view().with_len(1 << 60);
        assert_says(file.error(long.pickled()), ["`W_q.weight`", "end"]);
    }
}

#[test]
fn a_scattered_view_of_a_compressed_storage_is_an_error() {
    let mut file = Checkpoint::new();
    let step = 100_000;
    let strides = [2 * step, step];
    let far = view().with_len(10 * step).with_strides(&strides);
    let elements = (0..10 * step).map(|index| (index / step) as f32 / 4.0);
    file.entries[0].1 = elements.flat_map(f32::to_le_bytes).collect();
    let loaded = file.load(&state_dict(far.pickled(), vec![]));
    assert_eq!(loaded.unwrap().data, expected());
    file.method = CompressionMethod::Deflated;
    assert_says(file.error(far.pickled()), "save it uncompressed");
}

#[test]
fn a_changed_element_is_an_error() {
    let file = Checkpoint::new();
    file.load(&state_dict(view().pickled(), vec![])).unwrap();
    let mut content = std::fs::read(file.path()).unwrap();
    let element = 2.25_f32.to_le_bytes(); // the last of `W_q.weight` and others
    let at = content.windows(4).position(|window| window == element);
    content[at.unwrap()] ^= 1;
    std::fs::write(file.path(), content).unwrap();
    let error = load(&file.path()).unwrap_err();
    assert_says(&error, "`W_q.weight`: its elements have another checksum");
}

/// The archive's headers have the checksum of other elements for a compressed storage.
#[test]
fn a_compressed_storage_with_another_checksum_is_an_error() {
    let mut file = Checkpoint::new();
    file.method = CompressionMethod::Deflated;
    file.load(&state_dict(view().pickled(), vec![])).unwrap();
    let mut content = std::fs::read(file.path()).unwrap();
    // The entry `data/0`, in its own header and in the directory; 14 and 16 bytes after their signatures.
    for (signature, to_name, to_checksum) in [(b"PK\x03\x04", 30, 14), (b"PK\x01\x02", 46, 16)] {
        let header = (0..content.len()).find(|&at| {
            let (of, name) = (content[at..].get(..4), content[at..].get(to_name..));
            of == Some(signature) && name.is_some_and(|name| name.starts_with(b"archive/data/0"))
        });
        content[header.unwrap() + to_checksum] ^= 1;
    }
    std::fs::write(file.path(), content).unwrap();
    let error = load(&file.path()).unwrap_err();
    assert_says(&error, "`W_q.weight`: its storage cannot be read");
}

#[test]
fn big_endian_numbers_are_an_error() {
    let mut file = Checkpoint::new();
    for (order, is_read) in [("little", true), ("big", false), ("medium", false)] {
        file.entries.push(("byteorder", order.into()));
        let loaded = file.load(&state_dict(view().pickled(), vec![]));
        assert_eq!(loaded.is_ok(), is_read, "{order}");
        file.entries.pop();
    }
}

#[test]
fn two_tensors_of_one_name_are_an_error() {
    let file = Checkpoint::new();
    let nested = dict(&[("weight", view().pickled())]);
    let loaded = file.load(&state_dict(view().pickled(), vec![("W_q", nested)]));
    let expected = "`W_q.weight`: expected one tensor of this name";
    assert_says(loaded.unwrap_err(), expected);
}

#[test]
fn a_malformed_pickle_is_an_error() {
    let file = Checkpoint::new();
    let pickles: [(&[u8], &str); 13] = [
        (b"", "a copy that was cut off?"),
        (b".", "its stack is empty"),
        (b"}", "a copy that was cut off?"),
        (b"\x80\x06}.", "its protocol is 6"),
        (b"\xff", "the opcode 0xff is not supported"),
        (b"(.", "its stack is empty"),
        (b"e.", "its stack has no mark"),
        (b"}h\x05.", "an object 5 that is not there"),
        (b"N(K\x01u.", "a key without a value"),
        (b"K\x01K\x02a.", "it adds to what is no object"),
        (b"}K\x02a.", "it appends to what is no list"),
        (b"]K\x01K\x02s.", "it sets items of what is no dict"),
        (b"X\xff\xff\xff\xffhi", "a copy that was cut off?"),
    ];
    for (pickle, expected) in pickles {
        let error = file.load(pickle).unwrap_err();
        assert_says(error, ["its pickle is malformed", expected]);
    }
}

#[test]
fn a_pickle_of_no_dict_is_an_error() {
    let file = Checkpoint::new();
    let error = file.load(&pickle(&view().pickled())).unwrap_err();
    assert_says(&error, "expected tensors by name");
    for value in [int(1), text("W_q.weight"), b"N".to_vec(), b"]".to_vec()] {
        let error = file.load(&pickle(&value)).unwrap_err();
        assert_says(&error, "expected a tensor `W_q.weight`, found none");
    }
}
