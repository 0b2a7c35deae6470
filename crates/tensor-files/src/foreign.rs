//! Unsupported formats: their names, and the Python lines that save their tensors in a supported one.

use std::path::Path;

/// A format, and how to get at its tensors.
pub(crate) type Format = (&'static str, Way);

#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// A Python expression for a dict of NumPy arrays.
    Arrays(&'static str),
    /// As `Arrays`, for a Keras model, without the feature that reads its files.
    Feature,
    /// An action instead.
    Do(&'static str),
}
use Way::{Arrays, Do, Feature};

pub(crate) const DISTRIBUTED: Format = ("parts of tensors, as `torch.distributed.checkpoint` writes them", Do("join \
    those of the folder by `python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt`"));
pub(crate) const SHARDED: Format = ("parts of tensors, as FSDP writes them (`DCP_SHARDING_INFO`)", Do("join those of \
    the folder by `from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files\
    `, `consolidate_safetensors_files(\"FOLDER\", \"EMPTY_FOLDER\", {n: 1 for n in NAMES})`"));
const CHECKPOINT: Format = ("a checkpoint of TensorFlow", Arrays("{n: tf.train.load_variable(\"model.ckpt\", n) for n, \
    _ in tf.train.list_variables(\"model.ckpt\") if n[0] != \"_\"}"));
const SAVED_MODEL: Format = ("a SavedModel of TensorFlow",
    Arrays(r#"{v.name: v.numpy() for v in tf.saved_model.load("FOLDER").variables}"#));
const UNPACK: Format = ("an archive", Do("unpack it"));
const CONVERTED: Format = ("a model for inference", Do("take the one that it was made of"));
const PAGE: Format = ("a web page", Do("download the file itself"));

const ORBAX: Format = ("a checkpoint of Orbax",
    Arrays(r#"flax.traverse_util.flatten_dict(orbax.checkpoint.PyTreeCheckpointer().restore("FOLDER"), sep="/")"#));
pub(crate) const PICKLE: Format = ("a pickle without tensors", Do("save the state dict by `torch.save`"));
pub(crate) const ARCHIVE: Format = ("a zip archive without an entry `data.pkl` or `.npy`", Do("unpack it"));

/// Formats by characteristic bytes, and the offset of these in a file.
const FORMATS: [(usize, &[u8], Format); 16] = [
    (0, b"\x89HDF\r\n\x1a\n", ("HDF5, as Keras writes it", Feature)),
    (0, b"GGUF", ("GGUF", Arrays("{t.name: gguf.dequantize(t.data, t.tensor_type) for t in \
        gguf.GGUFReader(\"model.gguf\").tensors}"))),
    (0, b"DJL@", ("DJL's `.params`, whose blocks have no names", Do("in Java, name the arrays of \
        `block.getParameters()` by `setName` and write an `NDList` of them by `encode(out, NDList.Encoding.NPZ)`"))),
    (6, b"TransformerSpec", CONVERTED),
    (0, b"\x08\x01\x12", SAVED_MODEL),
    (0, b"\x82\xa8metadata", ("a record of Burn", Do("load it by `Module::load_file`"))),
    (257, b"ustar", ("a tar archive", Do("take the weights out of it, as `model_weights.ckpt` of a `.nemo`, by `tar \
        -xf`; load and save what PyTorch before 0.1.10 wrote by a later one"))),
    (0, b"lmgg", CONVERTED), (4, b"TFL3", CONVERTED), (0, b"<!DOCTYPE", PAGE), (0, b"<html", PAGE),
    (0, b"\x1f\x8b", UNPACK), (0, b"(\xb5/\xfd", UNPACK), (0, b"BZh", UNPACK), (0, b"7z\xbc\xaf", UNPACK),
    (0, b"version https://git-lfs", ("a pointer of Git LFS", Do("fetch the file by `git lfs pull`"))),
];

/// The unsupported format of a file that starts with `start`, if known.
pub(crate) fn of_start(start: &[u8]) -> Option<Format> {
    let holds = |word: &[u8]| start.windows(word.len()).any(|window| window == word);
    let is_there = |at: usize, word: &[u8]| start.get(at..).is_some_and(|rest| rest.starts_with(word));
    let found = FORMATS.iter().find(|(at, word, _)| is_there(*at, word));
    Some(match start {
        _ if let Some((.., format)) = found => *format,
        [0x80, ..] if holds(b"torch.distributed.checkpoint") => DISTRIBUTED,
        [8, 3..=32, 0x12 | 0x1a | 0x3a | 0x42, ..] => ("ONNX", Arrays(
            r#"{t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("model.onnx").graph.initializer}"#)),
        _ => return None,
    })
}

/// The error for a file of unknown format that starts with `start`.
pub(crate) fn unknown(start: &[u8]) -> String {
    match start {
        [] => expected("an empty file"),
        _ => expected(&format!("one that begins with `{}`", start[..start.len().min(16)].escape_ascii())),
    }
}

/// The format of a zip archive, by the name of an entry.
pub(crate) fn of_entry(name: &str) -> Option<Format> {
    Some(match name.rsplit('/').next()? {
        "archive_format" | "serialized_exported_program.json" => ("a program of `torch.export` without a table of weights",
            Do(r#"in Python, `torch.save(torch.export.load("model.pt2").state_dict, "weights.pt")`"#)),
        "model.weights.h5" => ("an archive of Keras", Feature),
        _ => return None,
    })
}

/// The format, by its path, of a file or a folder that cannot be read or has no tensors.
pub(crate) fn of_path(path: &Path) -> Option<Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let index = path.with_file_name(format!("{name}.index"));
    if name.ends_with(".distcp") || path.join(".metadata").exists() {
        Some(DISTRIBUTED)
    } else if path.join("saved_model.pb").exists() {
        Some(SAVED_MODEL)
    } else if ["_CHECKPOINT_METADATA", "manifest.ocdbt"].iter().any(|entry| path.join(entry).exists()) {
        Some(ORBAX)
    } else {
        let is_checkpoint = name.contains(".data-0") || name.ends_with(".index") || index.exists();
        is_checkpoint.then_some(CHECKPOINT)
    }
}

/// The error for a file of an unsupported format.
pub(crate) fn refused((name, way): Format) -> String {
    let saved = |w: &str| format!("`w = {w}`, `safetensors.numpy.save_file(w, \"model.safetensors\")`");
    let way = match way {
        Arrays(w) => format!("in Python, {}", saved(w)),
        // A variable of Keras 2 has no path.
        Feature => format!("turn on the feature `hdf5` of `attention-import` (or of `tensor-files`); or in Python, \
            after `model = keras.models.load_model(..)` or `model.load_weights(..)`, {}",
            saved(r#"{getattr(v, "path", v.name): v.numpy() for v in model.weights}"#)),
        Do(action) => action.to_string(),
    };
    expected(&format!("{name}: {way}"))
}

fn expected(got: &str) -> String {
    format!("expected a file of PyTorch, safetensors, NumPy, Keras, MXNet, Paddle or Flax, got {got}")
}
