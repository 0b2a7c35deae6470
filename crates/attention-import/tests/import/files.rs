//! Files that PyTorch wrote, of every kind.

use std::path::Path;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig};
use attention_import::{StateDict, load_recurrent};
use attention_tests::parameters::values;
use attention_tests::{
    Array, assert_outcomes_same, assert_same, assert_says, device, reference_path,
};
use burn::tensor::Tensor;
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig, Steps};

use crate::fill;
use crate::safetensors::{self, Entry, ONE};

/// Files that `tests/reference/generate_files.py` writes, in both formats of `torch.save`.
const VIEWS: [&str; 2] = ["import/views.pt", "import/views_legacy.pt"];

/// An attention with the parameters at `path`.
pub(crate) fn load(path: &Path, prefix: &str) -> Result<AdditiveAttention, String> {
    let attention = AdditiveAttentionConfig::new(2, 3, 5).init(&device::plain()[0]);
    fill(attention, path, prefix).map_err(|error| error.to_string())
}

pub(crate) fn parameters(attention: &AdditiveAttention) -> [Array; 3] {
    let score = &attention.score;
    [&score.query, &score.key, &score.value].map(|layer| Array::read(layer.weight.val()))
}

/// The parameters at `path`, whatever they are.
fn read(path: &Path, prefix: &str) -> [Array; 3] {
    parameters(&load(path, prefix).unwrap_or_else(|error| panic!("{prefix}: {error}")))
}

pub(crate) fn assert_plain(what: &str, parameters: &[Array; 3]) {
    let plain = read(&reference_path(VIEWS[0]), "plain.");
    for (at, name) in ["W_q", "W_k", "w_v"].into_iter().enumerate() {
        assert_same(format!("{what} {name}"), &parameters[at], &plain[at]);
    }
}

#[test]
fn a_view_is_read_as_its_copy() {
    for file in VIEWS {
        let path = reference_path(file);
        let cases = "plain transposed sliced stepped shared float16 bfloat16 float64 parameter";
        for case in cases.split(' ') {
            assert_plain(&format!("{file} {case}"), &read(&path, &format!("{case}.")));
        }
        let [query, key, value] = read(&path, "expanded.");
        let [query_copy, key_copy, _] = read(&path, "repeated.");
        assert_same("expanded W_q", &query, &query_copy);
        assert_same("expanded W_k", &key, &key_copy);
        let [.., plain] = read(&path, "plain.");
        assert_same("expanded w_v", &value, &plain);
    }
}

#[test]
fn elements_are_those_that_pytorch_drew() {
    // By the script that wrote the file: multiples of 1/64, rounded from a generator with a seed.
    let [query, ..] = read(&reference_path(VIEWS[0]), "plain.");
    assert_eq!(query.shape, [2, 5]);
    assert_eq!(query.data[..3], [-0.453125, 1.5, -0.0625]);
}

#[test]
fn what_cannot_be_read_is_named_and_hinders_nothing_else() {
    let types = [
        ("complex", "torch.ComplexFloatStorage"),
        ("float8", "torch.float8_e4m3fn"),
        ("sparse", "torch._utils._rebuild_sparse_tensor"),
        ("quantized", "torch._utils._rebuild_qtensor"),
        ("negated", "a view that negates or conjugates"),
    ];
    for file in VIEWS {
        let path = reference_path(file);
        for (case, name) in types {
            let error = load(&path, &format!("{case}.")).unwrap_err();
            let tensor = format!("`{case}.W_q.weight`");
            assert_says(error, [&*path.display().to_string(), &tensor, name]);
        }
    }
}

/// The tensors of the attention, of a type.
fn entries<'a>(dtype: &'a str, element: &'a [u8]) -> [Entry<'a>; 3] {
    [
        ("w_v.weight", dtype, element, &[1, 5]),
        ("W_k.weight", dtype, element, &[5, 3]),
        ("W_q.weight", dtype, element, &[5, 2]),
    ]
}

#[test]
fn every_type_of_floats_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let types: [(&str, &[u8]); 4] = [
        ("F64", &1_f64.to_le_bytes()),
        ("F32", &1_f32.to_le_bytes()),
        ("F16", &[0x00, 0x3c]),
        ("BF16", &[0x80, 0x3f]),
    ];
    for (name, element) in types {
        safetensors::write(&path, &entries(name, element));
        for parameter in read(&path, "") {
            assert_same(name, &parameter, &Array::full(&parameter.shape, 1.0));
        }
    }
    safetensors::write(&path, &entries("F8_E4M3", &[0x38]));
    assert_says(load(&path, "").unwrap_err(), ["`W_q.weight`", "F8_E4M3"]);
}

#[test]
fn a_header_that_lies_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let ones = format!("[10{}]", ",1".repeat(99));
    let shapes = [
        ("[5,3]", "its header is malformed"),
        ("[5,-2]", "its header is malformed"),
        ("[4294967296,4294967296]", "its header is malformed"),
        ("[10]", "expected the shape [5, 2], got [10]"),
        (&ones, "more than 64 axes"),
    ];
    let (header, content) = safetensors::parts(&entries("F32", &ONE));
    for (shape, expected) in shapes {
        safetensors::write_parts(&path, &header.replace("[5, 2]", shape), &content);
        let error = load(&path, "").unwrap_err();
        assert_says(&error, expected);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    for len in [u64::MAX, 1 << 40, 100_000_001, 1_000] {
        std::fs::write(&path, [&len.to_le_bytes()[..], b"{}"].concat()).unwrap();
        load(&path, "").unwrap_err();
    }
    let endless = r#"{"a":{"dtype":"U8","shape":[2305843009213693951],"data_offsets":[0,2305843009213693951]}}"#;
    safetensors::write_parts(&path, endless, &[]);
    assert_says(load(&path, "").unwrap_err(), "a copy that was cut off?");
}

#[test]
fn a_stem_of_any_length_is_read() {
    let path = reference_path("import/stem_of_21_characters.pt");
    assert_plain("21", &read(&path, ""));
}

#[test]
fn a_whole_module_is_read_as_its_state_dict() {
    let path = reference_path("import/module.pt");
    assert_plain("module", &read(&path, "model."));
    let error = load(&path, "").unwrap_err();
    let expected = "expected a tensor `W_q.weight`, found only `model.W_q.weight`, `model.W_k.weight`, \
                    `model.w_v.weight`";
    assert_says(&error, expected);
    let error = load(&path, "model").unwrap_err();
    let expected = "found `model.W_q.weight`: a prefix ends in `.`";
    assert_says(&error, expected);
}

#[test]
fn the_content_tells_the_format_and_not_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let names = "m.pt m.pth m.bin m.ckpt m.safetensors M.PT M.CKPT M.SAFETENSORS m m.2026";
    let files = [
        ("additive_state_dict.pt", ""),
        ("additive_state_dict.safetensors", ""),
        ("additive_nested.pt", "attention."),
    ];
    let config = AdditiveAttentionConfig::new(11, 13, 17);
    let load = |path: &Path, prefix: &str| {
        let attention = config.init(&device::plain()[0]);
        parameters(&fill(attention, path, prefix).unwrap())
    };
    let expected = load(&reference_path(files[0].0), "");
    for (file, prefix) in files {
        for name in names.split(' ') {
            let path = folder.path().join(name);
            std::fs::copy(reference_path(file), &path).unwrap();
            for (actual, expected) in load(&path, prefix).iter().zip(&expected) {
                assert_same(format!("{file} as {name}"), actual, expected);
            }
        }
    }
    let legacy = folder.path().join("legacy.safetensors");
    std::fs::copy(reference_path(VIEWS[1]), &legacy).unwrap();
    assert_plain("legacy", &read(&legacy, "plain."));
}

#[test]
fn what_no_one_wrote_as_tensors_is_told_by_its_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    #[rustfmt::skip]
    let contents: [(&[u8], &str); 5] = [
        (b"", "got an empty file"),
        (b"version https://git-lfs.github.com/spec/v1", "got a pointer of Git LFS"),
        (b"\x08\n\x00\xff", "got one that begins with `\\x08\\n\\x00\\xff`"),
        (b"\x80\x04}\x94.", "got a pickle without tensors"),
        (&tar, "got a tar archive"),
    ];
    for (content, expected) in contents {
        let path = folder.path().join("weights.pt");
        std::fs::write(&path, content).unwrap();
        let error = load(&path, "").unwrap_err();
        let formats = "expected a file of PyTorch, safetensors, NumPy, ";
        assert_says(error, [formats, expected]);
    }
}

#[test]
fn a_wrong_prefix_is_answered_by_the_nearest_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.safetensors");
    let layers = (0..5_000).map(|layer| {
        let kind = ["W_q.weight", "W_q.bias"][layer % 2];
        format!(r#""encoder.layers.{layer}.attention.{kind}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#)
    });
    let header = format!("{{{}}}", layers.collect::<Vec<_>>().join(","));
    safetensors::write_parts(&path, &header, &[]);
    let error = load(&path, "encoder.layer.1234.attention.").unwrap_err();
    let parts = [
        "`encoder.layer.1234.attention.W_q.weight`",
        "5000 others",
        "`encoder.layers.1234.attention.W_q.weight`",
    ];
    assert_says(&error, parts);
    assert!(!error.contains(".bias"), "{error}");
    assert!(error.len() < 600, "{} bytes: {error}", error.len());
}

#[test]
fn layers_without_biases_compute_what_layers_with_biases_of_zero_do() {
    let device = &device::plain()[0];
    let input = Array::draw(1, &[2, 4, 5]).f32::<3>(device);
    for (name, cell) in [("gru", CellKind::Gru), ("lstm", CellKind::Lstm)] {
        let config = RecurrentConfig::new(cell, 5, 7);
        let run = |recurrent: &Recurrent| {
            let (outputs, _) = recurrent.forward(input.clone(), None, &Steps::all());
            Array::read(outputs)
        };
        let path = reference_path(&format!("import/{name}_without_bias.pt"));
        let loaded = load_recurrent(config.init(device), path, "").unwrap();
        for layer in &loaded.layers {
            assert!(layer.input.bias.is_none() && layer.hidden.bias.is_none());
        }

        // The script draws the same weights for the layers of the other files, which have biases.
        let both = config.with_layers(2).with_bidirectional(true).init(device);
        let path = reference_path(&format!("{name}.safetensors"));
        let mut layer = load_recurrent(both, path, "").unwrap().layers.remove(0);
        for linear in [&mut layer.input, &mut layer.hidden] {
            let bias = linear.bias.take();
            linear.bias = bias.map(|bias| bias.map(|bias: Tensor<1>| bias.zeros_like()));
        }
        assert_same(name, &run(&loaded), &run(&layer.into()));
    }
}

#[test]
fn cells_are_read_as_layers() {
    let device = &device::plain()[0];
    let path = reference_path("import/cells.safetensors");
    for (name, cell) in [("gru", CellKind::Gru), ("lstm", CellKind::Lstm)] {
        let config = RecurrentConfig::new(cell, 5, 7);
        let load = |config: &RecurrentConfig, of: &str| {
            let loaded = load_recurrent(config.init(device), &path, &format!("{name}.{of}."));
            loaded.map_err(|error| error.to_string())
        };
        let both = config.clone().with_layers(2);
        let layers = load(&both, "layers").unwrap();
        let listed = load(&both, "cells").unwrap();
        assert_outcomes_same(name, &values(&listed), &values(&layers));

        let first = Recurrent::from(layers.layers[0].clone());
        let one = load(&config, "cell").unwrap();
        assert_outcomes_same(name, &values(&one), &values(&first));
        let one = load(&config, "cell_without_bias").unwrap();
        assert!(one.layers[0].input.bias.is_none() && one.layers[0].hidden.bias.is_none());

        let refused = |config: &RecurrentConfig, of: &str, expected: &str| {
            assert_says(load(config, of).unwrap_err(), expected);
        };
        let expected = "cells.1.weight_ih`, since the number of layers is 1";
        refused(&config, "cells", expected);
        refused(&both, "cell", "expected 2 layers, got one cell");
        let both = config.with_bidirectional(true);
        let expected = "expected layers that read in both directions, got cells";
        refused(&both, "cell", expected);
        let expected = format!("`{name}.encoder.weight_ih`");
        refused(&both, "encoder", &expected);
    }
}

#[test]
fn a_file_in_which_only_some_biases_are_missing_is_an_error() {
    let device = &device::plain()[0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gru.safetensors");
    let mut content = std::fs::read(reference_path("gru.safetensors")).unwrap();
    let name = b"bias_hh_l1\"";
    let at = content.windows(name.len()).position(|part| part == name);
    let at = at.unwrap();
    content[at..at + 4].copy_from_slice(b"bios");
    std::fs::write(&path, content).unwrap();
    let config = RecurrentConfig::new(CellKind::Gru, 5, 7)
        .with_layers(2)
        .with_bidirectional(true);
    let error = load_recurrent(config.init(device), path, "").unwrap_err();
    assert_says(error, "expected a tensor `bias_hh_l1`");
}

#[test]
fn an_open_file_shows_its_prefix_and_no_element() {
    let file = StateDict::open(&reference_path(VIEWS[0]), "plain.").unwrap();
    let file = file.renamed(|name| format!("plain.{name}")).unwrap();
    let names = file.names().count();
    let expected = format!("StateDict {{ prefix: \"plain.\", tensors: {names} }}");
    assert_eq!(format!("{file:?}"), expected);
}
