//! D2L's additive attention from PyTorch's state dicts.

use std::path::{Path as FilePath, PathBuf};

use attention_core::{AdditiveAttention, AdditiveAttentionConfig};
use attention_import::packages::d2l;
use attention_tests::{Array, assert_close, assert_says, device, reference, reference_path};
use burn::tensor::Device;

use crate::fill;

/// The sizes of the reference files.
const SIZES: [usize; 3] = [11, 13, 17];

fn attention([query_size, key_size, hiddens]: [usize; 3], device: &Device) -> AdditiveAttention {
    AdditiveAttentionConfig::new(query_size, key_size, hiddens).init(device)
}

/// Context and weights on the inputs of the reference.
fn run(attention: &AdditiveAttention, device: &Device) -> [Array; 2] {
    let case = &reference("additive_state_dict")[0];
    let [queries, keys, values] =
        ["queries", "keys", "values"].map(|name| case.inputs[name].f32::<3>(device));
    let output = attention.forward_with_weights(queries, keys, values, case.mask.mask(device));
    [Array::read(output.context), Array::read(output.weights)]
}

/// Loads a state dict and compares with what PyTorch computed with it.
fn check(file: &str, prefix: &str) {
    device::each_both_ways(|device| {
        let loaded = d2l::pytorch::ADDITIVE.load(reference_path(file), prefix, device);
        let loaded = loaded.unwrap();
        let expected = &reference("additive_state_dict")[0].outputs;
        let [context, weights] = run(&loaded, device);
        assert_close("context", &context, &expected["context"], 2e-6);
        assert_close("weights", &weights, &expected["weights"], 2e-6);
    });
}

#[test]
fn a_pytorch_state_dict_computes_what_pytorch_did() {
    check("additive_state_dict.pt", "");
}

#[test]
fn a_safetensors_file_computes_what_pytorch_did() {
    check("additive_state_dict.safetensors", "");
}

#[test]
fn a_state_dict_may_be_inside_a_larger_model() {
    check("additive_nested.pt", "attention.");
}

/// The error of loading `path` into an attention of `sizes`.
fn error(sizes: [usize; 3], path: impl AsRef<FilePath>, prefix: &str) -> String {
    let device = &device::plain()[0];
    let error = fill(attention(sizes, device), &path, prefix).unwrap_err();
    let error = error.to_string();
    let path = path.as_ref().display().to_string();
    assert!(
        error.contains(&path),
        "`{error}` does not name the file `{path}`"
    );
    error
}

fn assert_names(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
}

#[test]
fn a_missing_file_is_named() {
    for name in ["missing.pt", "missing.safetensors"] {
        assert_names(&error(SIZES, reference_path(name), ""), &["No such file"]);
    }
}

#[test]
fn a_malformed_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "weights.pt",
        "weights.pth",
        "weights.bin",
        "weights.safetensors",
    ] {
        for content in [&b""[..], b"neither a zip file nor a pickle", &[0xff; 100]] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            error(SIZES, path, "");
        }
    }
}

#[test]
fn another_prefix_is_a_missing_tensor() {
    let expected = ["W_q.weight", "found only"];
    assert_names(
        &error(SIZES, reference_path("additive_nested.pt"), ""),
        &expected,
    );
    let found = error(
        SIZES,
        reference_path("additive_nested.pt"),
        "decoder.attention.",
    );
    assert_names(
        &found,
        &[
            "attention.W_q.weight",
            "attention.W_k.weight",
            "encoder.weight",
        ],
    );
    assert_names(
        &error(
            SIZES,
            reference_path("additive_state_dict.pt"),
            "attention.",
        ),
        &expected,
    );
    assert_names(
        &error(
            SIZES,
            reference_path("additive_state_dict.safetensors"),
            "x.",
        ),
        &expected,
    );
    // A prefix is not a pattern.
    assert_names(
        &error(SIZES, reference_path("additive_nested.pt"), "attentio.."),
        &expected,
    );
}

#[test]
fn another_shape_names_both() {
    for file in ["additive_state_dict.pt", "additive_state_dict.safetensors"] {
        let wrong = error([12, 13, 17], reference_path(file), "");
        assert_names(&wrong, &["W_q.weight", "[17, 12]", "[17, 11]"]);
        let wrong = error([11, 14, 17], reference_path(file), "");
        assert_names(&wrong, &["W_k.weight", "[17, 14]", "[17, 13]"]);
        error([11, 13, 18], reference_path(file), "");
    }
}

/// A safetensors file of f32 tensors.
fn safetensors(folder: &FilePath, tensors: &[(&str, &[usize])]) -> PathBuf {
    let mut header = Vec::new();
    let mut data = Vec::new();
    for (name, shape) in tensors {
        let start = data.len();
        let elements = Array::draw(1, shape).data;
        data.extend(
            elements
                .iter()
                .flat_map(|&number| (number as f32).to_le_bytes()),
        );
        let end = data.len();
        header.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    let path = folder.join("weights.safetensors");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_missing_tensor_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let tensors: [(&str, &[usize]); 3] = [
        ("W_q.weight", &[7, 3]),
        ("W_k.weight", &[7, 5]),
        ("w_v.weight", &[1, 7]),
    ];
    let complete = safetensors(folder.path(), &tensors);
    fill(attention([3, 5, 7], &device::plain()[0]), complete, "").unwrap();
    for missing in 0..3 {
        let mut some = tensors.to_vec();
        let (name, _) = some.remove(missing);
        some.push(("other.weight", &[2, 2]));
        let path = safetensors(folder.path(), &some);
        assert_names(&error([3, 5, 7], path, ""), &[name, "other.weight"]);
    }
}

#[test]
fn a_state_dict_with_biases_adds_them_up() {
    let device = &device::plain()[0];
    let path = reference_path("multi_head_d2l_bias.safetensors");
    let config = AdditiveAttentionConfig::new(12, 12, 12).with_bias(true);
    let error = fill(config.init(device), path, "").unwrap_err();
    assert_says(error, "`W_k.bias`");
    let folder = tempfile::tempdir().unwrap();
    let all: [(&str, &[usize]); 5] = [
        ("W_q.weight", &[7, 3]),
        ("W_k.weight", &[7, 5]),
        ("w_v.weight", &[1, 7]),
        ("W_q.bias", &[7]),
        ("W_k.bias", &[7]),
    ];
    // One of the two, as an attention with a bias has here, and both.
    for biases in [1, 2] {
        let path = safetensors(folder.path(), &all[..3 + biases]);
        let loaded = d2l::pytorch::ADDITIVE.load(&path, "", device).unwrap();
        let bias = loaded.score.query.bias.unwrap().val();
        let expected = Array::draw(1, &[7]).f32::<1>(device) * biases as f64;
        assert_close("bias", &Array::read(bias), &Array::read(expected), 1e-6);
    }
}
