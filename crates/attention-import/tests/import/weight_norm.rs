//! Files of PyTorch's with weights that `weight_norm` divided into a length and a direction.

use std::path::Path;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, MultiHeadAttentionConfig};
use attention_import::packages::espnet;
use attention_import::{ImportError, load_multi_head_attention, load_recurrent};
use attention_tests::{
    Array, assert_close, assert_same, assert_says, device, parameters, reference_path,
};
use burn::module::Module;
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig};

use crate::fill;
use crate::safetensors::{self, Entry, ones};

const FILE: &str = "import/weight_norm.pt";

/// The old form of `weight_norm` and the new one load as the weights that they stand for.
fn assert_as_plain<M: Module>(name: &str, load: impl Fn(&Path, &str) -> Result<M, ImportError>) {
    let read = |form: &str| {
        let module = load(&reference_path(FILE), &format!("{form}.{name}."));
        parameters::values(&module.unwrap_or_else(|error| panic!("{form} {name}: {error}")))
    };
    let plain = read("plain");
    for form in ["old", "new"] {
        let loaded = read(form);
        assert_eq!(loaded.len(), plain.len(), "{form} {name}");
        for (parameter, expected) in &plain {
            let what = format!("{form} {name}: {parameter}");
            assert_close(what, &loaded[parameter], expected, 1e-6);
        }
    }
}

fn load_additive(size: usize, path: &Path, prefix: &str) -> Result<AdditiveAttention, ImportError> {
    let config = AdditiveAttentionConfig::new(size, 3, 5);
    fill(config.init(&device::plain()[0]), path, prefix)
}

#[test]
fn a_length_and_a_direction_are_read_as_their_product() {
    let device = &device::plain()[0];
    // A length for each row, for each column and for the whole matrix.
    assert_as_plain("attention", |path, prefix| load_additive(2, path, prefix));
    assert_as_plain("heads", |path, prefix| {
        let heads = MultiHeadAttentionConfig::new(4, 2).with_bias(true);
        load_multi_head_attention(heads.init(device), path, prefix)
    });
    for (name, kind) in [("lstm", CellKind::Lstm), ("cell", CellKind::Gru)] {
        let config = RecurrentConfig::new(kind, 5, 7);
        assert_as_plain(name, |path, prefix| {
            load_recurrent(config.init(device), path, prefix)
        });
    }
    assert_as_plain("espnet", |path, prefix| {
        espnet::ATT_LOC.load(path, prefix, device)
    });
}

#[test]
fn a_length_or_a_direction_of_another_shape_is_an_error() {
    let error = load_additive(4, &reference_path(FILE), "old.attention.").unwrap_err();
    let of_direction = "`old.attention.W_q.weight_v`: expected the shape [5, 4], got [5, 2]";
    assert_says(error, of_direction);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.safetensors");
    let refused = |tensors: &[Entry], expected: &str| {
        safetensors::write(&path, tensors);
        assert_says(load_additive(2, &path, "").unwrap_err(), expected);
    };
    refused(
        &[ones("W_q.weight_g", &[2]), ones("W_q.weight_v", &[5, 2])],
        "`W_q.weight_g`: expected one of the shapes [[5, 1], [1, 2]], or one element, got [2]",
    );
    // A length that has a length and a direction itself, of a number.
    let of_length = [
        ones("W_q.weight_v", &[5, 2]),
        ones("W_q.weight_g_g", &[]),
        ones("W_q.weight_g_v", &[]),
    ];
    refused(&of_length, "expected a tensor `W_q.weight`");
    // A spectral norm beside them, and a third part.
    for third in [
        "W_q.parametrizations.weight.1._u",
        "W_q.parametrizations.weight.original2",
    ] {
        let three = [
            ones("W_q.parametrizations.weight.original0", &[5, 1]),
            ones("W_q.parametrizations.weight.original1", &[5, 2]),
            ones(third, &[5]),
        ];
        refused(&three, "expected a tensor `W_q.weight`");
    }

    let zero = [0; 4];
    let pair: [Entry; 2] = [
        ("W_q.weight_g", "F32", &zero, &[5, 1]),
        ("W_q.weight_v", "F32", &zero, &[5, 2]),
    ];
    let of_zeros = "`W_q.weight_v`: expected directions, got zeros";
    refused(&pair, of_zeros);
}

#[test]
fn a_weight_itself_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.safetensors");
    let tensors = [
        ones("W_q.weight", &[5, 2]),
        ones("W_q.weight_g", &[5, 1]),
        ones("W_q.weight_v", &[5, 2]),
        ones("W_k.weight", &[5, 3]),
        ones("w_v.weight", &[1, 5]),
    ];
    safetensors::write(&path, &tensors);
    let attention = load_additive(2, &path, "").unwrap();
    for (name, parameter) in parameters::values(&attention) {
        assert_same(name, &parameter, &Array::full(&parameter.shape, 1.0));
    }
}
