//! Files of other formats, parts of tensors and prefixes of wrappers: each error names the way to a file that is read.

use std::path::Path;

use attention_core::MultiHeadAttentionConfig;
use attention_import::packages::opennmt;
use attention_import::{
    Reason, StateDict, load_multi_head_attention, load_recurrent, read_multi_head_attention,
};
use attention_tests::checkpoint::{CompressionMethod, pickle, text, write_archive};
use attention_tests::{Array, assert_says, device};
use burn::module::Param;
use burn::tensor::Tensor;
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig};

use crate::files::load;
use crate::safetensors::{self, Entry, NAMES, ONE, ones, ones_of};

/// A file of these under a prefix, the first of a type of its own.
fn write_additive(path: &Path, prefix: &str, dtype: &str, elements: &[u8]) {
    let [query, key, value] = NAMES.map(|name| format!("{prefix}{name}"));
    let query = (&*query, dtype, elements, &[5, 2][..]);
    safetensors::write(path, &[query, ones(&key, &[5, 3]), ones(&value, &[1, 5])]);
}

/// A program tells errors apart by their kind, without reading sentences.
#[test]
fn errors_have_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let codes = ("codes", "I8", &[1][..], &[2][..]);
    safetensors::write(&path, &[ones("weight", &[2, 3]), codes]);
    let file = StateDict::open(&path, "").unwrap();
    let find = |name: &str, shape: &[usize]| file.find(name, shape).map(drop).unwrap_err();
    let tensor = || "weight".to_owned();
    let shape = Reason::Shape {
        tensor: tensor(),
        expected: "[3, 2]".to_owned(),
        got: vec![2, 3],
        hint: String::new(),
    };
    assert_eq!(find("weight", &[3, 2]), shape);
    let missing = find("bias", &[2]);
    assert!(matches!(missing, Reason::Missing { ref tensor, .. } if tensor == "bias"));
    let integers = find("codes", &[2]);
    assert!(matches!(integers, Reason::ElementType { ref tensor, .. } if tensor == "codes"));
    let (tensor, why) = (tensor(), "there is none".to_owned());
    let unexpected = Reason::Unexpected { tensor, why };
    assert_eq!(file.refuse("weight", "there is none"), Err(unexpected));
    let heads = MultiHeadAttentionConfig::new(4, 2).init(&device::plain()[0]);
    let error = load_multi_head_attention(heads, &path, "").unwrap_err();
    assert_eq!(error.path(), path);
    assert!(matches!(error.reason(), Reason::Missing { .. }), "{error}");
}

#[test]
fn integers_are_no_floats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for (dtype, element) in [
        ("I8", &[1_u8; 1][..]),
        ("U8", &[1]),
        ("I64", &[1; 8]),
        ("BOOL", &[1]),
    ] {
        write_additive(&path, "", dtype, element);
        let expected = ["`W_q.weight`: expected floats, got ", "dequantized"];
        assert_says(load(&path, "").unwrap_err(), expected);
    }
    // Other modules, and a weight that is divided.
    let device = &device::plain()[0];
    let write = |name, shape, others: &[Entry]| {
        let integers = (name, "I8", &[1][..], shape);
        safetensors::write(&path, &[&[integers], others].concat());
    };
    write("weight_ih_l0", &[6, 3], &[ones("weight_hh_l0", &[6, 2])]);
    let gru = RecurrentConfig::new(CellKind::Gru, 3, 2).init(device);
    let error = load_recurrent(gru, &path, "").unwrap_err();
    assert_says(error, "`weight_ih_l0`: expected floats, got I8");
    let output = ones("out_proj.weight", &[4, 4]);
    write("in_proj_weight", &[12, 4], &[output]);
    let heads = MultiHeadAttentionConfig::new(4, 2).init(device);
    let error = load_multi_head_attention(heads, &path, "").unwrap_err();
    assert_says(error, "`in_proj_weight`: expected floats, got I8");
    write("linear_out.weight", &[3, 6], &[]);
    let error = opennmt::DOT.load(&path, "", device).unwrap_err();
    assert_says(error, "`linear_out.weight`: expected floats, got I8");
    write("W_q.weight_g", &[5, 1], &[ones("W_q.weight_v", &[5, 2])]);
    let error = load(&path, "").unwrap_err();
    assert_says(error, "`W_q.weight_g`: expected floats, got I8");
}

#[test]
fn parts_of_tensors_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shard.safetensors");
    let tensors = ones_of(&[[5, 2], [5, 3], [1, 5]]);
    let (header, content) = safetensors::parts(&tensors);
    let texts = r#""__metadata__":{"DCP_SHARDING_INFO":"{}"}"#;
    let header = header.replace(r#""__metadata__":{}"#, texts);
    safetensors::write_parts(&path, &header, &content);
    let error = load(&path, "").unwrap_err();
    assert_says(error, "consolidate_safetensors_files(");

    safetensors::write(&path, &tensors);
    let index = folder.path().join("model.safetensors.index.json");
    let map = NAMES.map(|name| format!(r#""{name}":"shard.safetensors""#));
    let map = map.join(",");
    let with_size = |size: &str| {
        let content = format!(r#"{{"metadata":{{"total_size":{size}}},"weight_map":{{{map}}}}}"#);
        std::fs::write(&index, content).unwrap();
        load(&index, "")
    };
    with_size("120").unwrap();
    with_size("120.0").unwrap();
    with_size("\"?\"").unwrap();
    let error = with_size("240").unwrap_err();
    let of_size = "`total_size`: expected 240 bytes in the shards, got 120";
    assert_says(error, [of_size, "full_state_dict=True"]);
    // Saved in half precision under the size before.
    let half = |name: &'static str| -> Entry { (name, "F16", &[0, 0x3c], &[2]) };
    safetensors::write(&path, &NAMES.map(half));
    StateDict::open(&index, "").map(drop).unwrap_err();
    let half = |size: usize| with_size(&size.to_string()).unwrap_err();
    assert_says(half(24), "expected the shape [5, 2]");
    assert_says(half(25), "`total_size`");
}

/// A zip archive with entries of these names.
fn archive(path: &Path, names: &[&str]) {
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"1"[..])).collect();
    let pickle = pickle(&text("x"));
    write_archive(path, CompressionMethod::Stored, &pickle, &entries);
}

#[test]
fn formats_of_others_are_named_with_the_lines_that_convert_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    #[rustfmt::skip]
    let contents: [(&[u8], &str); 12] = [
        (b"GGUF\x03\0\0\0", "gguf.GGUFReader("),
        (b"DJL@\0\0\0\x01", "NDList.Encoding.NPZ"),
        (b"\x06\0\0\0\x10\0TransformerSpec\0", "take the one that it was made of"),
        (b"\x08\x01\x12\x80", "tf.saved_model.load("),
        (b"\x08\x08\x12\x07pytorch", "onnx.load("),
        (b"\x82\xa8metadata\x81", "Module::load_file"),
        (b"\x80\x04\x8c%torch.distributed.checkpoint.metadata", "dcp_to_torch"),
        (b"\x80\x04}\x94.", "save the state dict by `torch.save`"),
        (b"lmgg", "take the one that it was made of"),
        (b"\x1c\0\0\0TFL3", "take the one that it was made of"),
        (b"\x1f\x8b\x08", "unpack it"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
    ];
    for (content, expected) in contents {
        std::fs::write(&path, content).unwrap();
        assert_says(load(&path, "").unwrap_err(), expected);
    }
    // By the path alone.
    std::fs::write(folder.path().join("tf.ckpt.index"), b"\0\0\x01\x02").unwrap();
    for name in ["tf.ckpt", "tf.ckpt.index"] {
        let error = load(&folder.path().join(name), "").unwrap_err();
        assert_says(error, "tf.train.load_variable(");
    }
    let orbax = folder.path().join("orbax");
    std::fs::create_dir(&orbax).unwrap();
    std::fs::write(orbax.join("_CHECKPOINT_METADATA"), b"{}").unwrap();
    assert_says(load(&orbax, "").unwrap_err(), "orbax.checkpoint.");
    std::fs::write(folder.path().join(".metadata"), b"\x80\x04.").unwrap();
    assert_says(load(folder.path(), "").unwrap_err(), "dcp_to_torch");
    // What is one archive behind the other, as a `.distcp` is under any name.
    archive(&path, &["data/0"]);
    let one = std::fs::read(&path).unwrap();
    std::fs::write(&path, one.repeat(3)).unwrap();
    assert_says(load(&path, "").unwrap_err(), "dcp_to_torch");
    let part = folder.path().join("__0_0.distcp");
    std::fs::write(&part, one).unwrap();
    assert_says(load(&part, "").unwrap_err(), "dcp_to_torch");
}

#[test]
fn a_wrapper_is_told_with_its_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for (wrapped, prefix) in [
        ("module.", ""),
        ("module._orig_mod.", ""),
        ("decoder.module.", "decoder."),
        ("module.decoder.", "decoder."),
        ("_fsdp_wrapped_module.decoder.", "decoder."),
    ] {
        write_additive(&path, wrapped, "F32", &ONE);
        let expected = format!("names that begin with `{wrapped}`");
        assert_says(load(&path, prefix).unwrap_err(), &expected);
        load(&path, wrapped).unwrap();
    }
    // The names of another spelling, which are not asked for.
    let device = &device::plain()[0];
    write_additive(&path, "module.", "F32", &ONE);
    let heads = MultiHeadAttentionConfig::new(4, 2).init(device);
    let file = StateDict::open(&path, "").unwrap();
    let error = read_multi_head_attention(heads, &file, "").unwrap_err();
    assert_says(error, "names that begin with `module.`");
    let error = load(&path, "decoder.").unwrap_err();
    assert!(!error.contains("begin with"), "{error}");
}

#[test]
fn a_tensor_without_axes_is_one_element() {
    let device = &device::plain()[0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    safetensors::write(&path, &[("scale", "F32", &2.5_f32.to_le_bytes(), &[])]);
    let file = StateDict::open(&path, "").unwrap();
    let param = |shape: [usize; 1]| Param::from_tensor(Tensor::<1>::zeros(shape, device));
    let loaded = file.parameter(param([1]), "scale").unwrap();
    assert_eq!(Array::read(loaded.val()).data, [2.5]);
    assert!(file.unread().is_empty());
    let matrix = Param::from_tensor(Tensor::<2>::zeros([1, 1], device));
    let loaded = file.parameter_of_offset(matrix, "scale", 1.0).unwrap();
    assert_eq!(Array::read(loaded.val()).data, [3.5]);
    let error = file.parameter(param([2]), "scale").unwrap_err();
    assert_says(error, "expected the shape [2], got []");
}
