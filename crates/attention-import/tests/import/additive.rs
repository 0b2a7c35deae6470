//! D2L's additive attention from PyTorch's state dicts.

use std::path::Path;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig};
use attention_import::packages::d2l;
use attention_tests::{Array, assert_close, assert_says, device, reference, reference_path};
use burn::tensor::Device;

use crate::fill;
use crate::safetensors::{self, Entry, ones, ones_of};

/// The sizes of the reference files.
const SIZES: [usize; 3] = [11, 13, 17];

fn attention([query_size, key_size, hiddens]: [usize; 3], device: &Device) -> AdditiveAttention {
    AdditiveAttentionConfig::new(query_size, key_size, hiddens).init(device)
}

/// Context and weights on the inputs of the reference.
fn run(attention: &AdditiveAttention, device: &Device) -> [Array; 2] {
    let case = &reference("additive_state_dict")[0];
    let [q, k, v] = ["queries", "keys", "values"].map(|name| case.inputs[name].f32::<3>(device));
    let output = attention.forward_with_weights(q, k, v, case.mask.mask(device));
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

/// Files of either format, also inside a larger model.
#[test]
fn a_state_dict_computes_what_pytorch_did() {
    check("additive_state_dict.pt", "");
    check("additive_state_dict.safetensors", "");
    check("additive_nested.pt", "attention.");
}

/// The error of loading `path` into an attention of `sizes`.
fn error(sizes: [usize; 3], path: impl AsRef<Path>, prefix: &str) -> String {
    let device = &device::plain()[0];
    let error = fill(attention(sizes, device), &path, prefix).unwrap_err();
    let error = error.to_string();
    assert_says(&error, &path.as_ref().display().to_string());
    error
}

#[test]
fn a_missing_file_is_named() {
    for name in ["missing.pt", "missing.safetensors"] {
        assert_says(error(SIZES, reference_path(name), ""), "No such file");
    }
}

#[test]
fn a_malformed_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for end in ["pt", "pth", "bin", "safetensors"] {
        for content in [&b""[..], b"neither a zip file nor a pickle", &[0xff; 100]] {
            let path = folder.path().join(format!("weights.{end}"));
            std::fs::write(&path, content).unwrap();
            error(SIZES, path, "");
        }
    }
}

#[test]
fn another_prefix_is_a_missing_tensor() {
    let names = [
        "attention.W_q.weight",
        "attention.W_k.weight",
        "encoder.weight",
    ];
    let absent = ["W_q.weight", "found only"];
    for (file, prefix, parts) in [
        ("additive_nested.pt", "", &absent[..]),
        ("additive_nested.pt", "decoder.attention.", &names),
        ("additive_state_dict.pt", "attention.", &absent),
        ("additive_state_dict.safetensors", "x.", &absent),
        // A prefix is not a pattern.
        ("additive_nested.pt", "attentio..", &absent),
    ] {
        assert_says(error(SIZES, reference_path(file), prefix), parts);
    }
}

#[test]
fn another_shape_names_both() {
    for file in ["additive_state_dict.pt", "additive_state_dict.safetensors"] {
        let wrong = error([12, 13, 17], reference_path(file), "");
        assert_says(wrong, ["W_q.weight", "[17, 12]", "[17, 11]"]);
        let wrong = error([11, 14, 17], reference_path(file), "");
        assert_says(wrong, ["W_k.weight", "[17, 14]", "[17, 13]"]);
        error([11, 13, 18], reference_path(file), "");
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let tensors = ones_of(&[[7, 3], [7, 5], [1, 7]]);
    safetensors::write(&path, &tensors);
    fill(attention([3, 5, 7], &device::plain()[0]), &path, "").unwrap();
    for missing in 0..3 {
        let mut some = tensors.to_vec();
        let (name, ..) = some.remove(missing);
        some.push(ones("other.weight", &[2, 2]));
        safetensors::write(&path, &some);
        assert_says(error([3, 5, 7], &path, ""), [name, "other.weight"]);
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
    let path = folder.path().join("weights.safetensors");
    let drawn = Array::draw(1, &[7]);
    let elements = drawn.data.iter().map(|&element| element as f32);
    let elements: Vec<u8> = elements.flat_map(f32::to_le_bytes).collect();
    let all: [Entry; 5] = [
        ones("W_q.weight", &[7, 3]),
        ones("W_k.weight", &[7, 5]),
        ones("w_v.weight", &[1, 7]),
        ("W_q.bias", "F32", &elements, &[7]),
        ("W_k.bias", "F32", &elements, &[7]),
    ];
    // One of the two, as an attention with a bias has here, and both.
    for biases in [1, 2] {
        safetensors::write(&path, &all[..3 + biases]);
        let loaded = d2l::pytorch::ADDITIVE.load(&path, "", device).unwrap();
        let bias = loaded.score.query.bias.unwrap().val();
        assert_close("bias", bias, &drawn.map(|x| x * biases as f64), 1e-6);
    }
}
