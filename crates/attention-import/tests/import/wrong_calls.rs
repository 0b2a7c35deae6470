//! Calls that do not fit a file: another framework's class, a prefix that is none, tensors that are not there. Each is
//! an error that says what to call instead.

use attention_import::packages::{Package, d2l, keras};
use attention_import::{ImportError, Reason};
use attention_tests::{assert_says, device, reference_path};
use tensor_files::{FileFormat, TensorFile};

use crate::safetensors::{self, ones_of};

/// The call on a file of `tests/reference/frameworks`.
fn load<A>(package: Package<A>, file: &str, prefix: &str) -> Result<A, ImportError> {
    let path = reference_path("frameworks").join(file);
    package.load(path, prefix, &device::plain()[0])
}

#[track_caller]
fn error<A>(package: Package<A>, file: &str, prefix: &str) -> String {
    let loaded = load(package, file, prefix).map(drop);
    loaded.unwrap_err().to_string()
}

/// Of a class, too, whose sentence has a guess behind it.
#[test]
fn errors_of_classes_have_kinds() {
    let reason = |file: &str, prefix: &str| {
        let loaded = load(d2l::mxnet::GRU, file, prefix).map(drop);
        loaded.unwrap_err().reason().clone()
    };
    let shape = reason("small.params", "lstm.");
    let is_found = matches!(&shape, Reason::Shape { got, .. } if *got == [16, 5]);
    assert!(is_found, "{shape:?}");
    let missing = reason("without_bias.params", "encoder.rnn.rnn.");
    assert!(matches!(missing, Reason::Missing { tensor, .. } if tensor.ends_with("i2h_bias")));
    let wrong_prefix = reason("small.params", "nowhere.");
    let is_missing = matches!(wrong_prefix, Reason::Missing { .. });
    assert!(is_missing, "{wrong_prefix:?}");
}

/// A pickle of arrays that no framework has signed may be anybody's.
#[test]
fn paddles_files_are_those_that_it_marks() {
    let format = |file: &str| {
        let file = TensorFile::open(reference_path("frameworks").join(file));
        file.unwrap().format()
    };
    assert_eq!(format("small.pdparams"), FileFormat::Paddle);
    assert_eq!(format("paddle_nested.pdparams"), FileFormat::Pickle);
}

/// Square weights fit both ways round: the file and the names tell whose they are.
#[test]
fn square_weights_of_another_framework_are_refused() {
    let of_paddle =
        "expected D2L's MultiHeadAttention in Paddle's `.pdparams`, got MXNet's `.params`";
    let of_tensorflow = "expected a tensor `heads.W_q/vars/0`";
    for (package, expected) in [
        (d2l::paddle::MULTI_HEAD, of_paddle),
        (d2l::tensorflow::MULTI_HEAD, of_tensorflow),
        (d2l::jax::MULTI_HEAD, "expected a tensor `heads.W_q/kernel`"),
    ] {
        let error = error(package.with_num_heads(2), "small.params", "heads.");
        assert_says(error, [expected, "the names fit `d2l::mxnet::MULTI_HEAD`"]);
    }
    for package in [d2l::pytorch::MULTI_HEAD, d2l::mxnet::MULTI_HEAD] {
        let error = error(package.with_num_heads(2), "small.pdparams", "");
        let got = ", got Paddle's `.pdparams`, whose names may be the same";
        assert_says(error, [got, "the names fit `d2l::paddle::MULTI_HEAD`"]);
    }
    let [mxnet, paddle] =
        [d2l::mxnet::MULTI_HEAD, d2l::paddle::MULTI_HEAD].map(|of| of.with_num_heads(2));
    load(mxnet, "small.params", "heads.").unwrap();
    load(paddle, "small.pdparams", "").unwrap();
}

#[test]
fn one_bias_without_the_other_is_an_error() {
    let missing = error(d2l::mxnet::GRU, "without_bias.params", "encoder.rnn.rnn.");
    let expected = "expected a tensor `encoder.rnn.rnn._unfused.0.i2h_bias`, found \
                    `encoder.rnn.rnn._unfused.0.h2h_bias` alone: D2L's GRU has all biases or none";
    assert_says(missing, expected);
}

#[test]
fn a_wrong_prefix_of_mxnets_gru_is_told_in_mxnets_names() {
    let weight = "`lstm._unfused.0.i2h_weight`";
    for (prefix, expected) in [
        ("encoder.rnn.", weight),
        ("encoder.rnn.rnn", ": a prefix ends in `.`"),
        ("encoder.rnn.rnn._unfused.0.", weight),
        ("decoder.", weight),
        ("", weight),
    ] {
        let missing = format!("expected a tensor `{prefix}_unfused.0.i2h_weight`, found ");
        let hint = "; did you mean the prefix `encoder.rnn.rnn.`?";
        let error = error(d2l::mxnet::GRU, "small.params", prefix);
        assert_says(error, [&missing, expected, hint]);
    }
}

#[test]
fn a_wrong_prefix_of_keras_is_told_with_the_right_one() {
    for prefix in [
        "gru/",
        "layers/gru/",
        "model_weights/gru/",
        "model_weights/grru/grru/",
        "/model_weights/gru/gru/",
        "",
    ] {
        let missing = format!("expected a tensor `{prefix}gru_cell/kernel`, found ");
        let hint = "; did you mean the prefix `model_weights/gru/gru/`?";
        assert_says(error(keras::GRU, "keras2.h5", prefix), [&missing, hint]);
    }
    let error = error(keras::GRU, "keras2.h5", "model_weights/gru/gru");
    let expected = "expected a tensor `model_weights/gru/grugru_cell/kernel`, found \
                    `model_weights/gru/gru/gru_cell/kernel`: a prefix ends in `/`";
    assert_says(error, expected);
}

/// A name that the file's other layers have the end of: `vars/0` in a `.keras`, `scale` in an `.h5`.
#[test]
fn keras_names_are_expected_as_the_file_spells_them() {
    let of_h5 = error(keras::ADDITIVE, "keras2.h5", "model_weights/score/");
    let expected = "expected a tensor `model_weights/score/scale`, found ";
    assert_says(of_h5, expected);
    let archive = error(keras::ADDITIVE, "keras.keras", "layers/score/");
    let expected = "expected a tensor `layers/score/vars/0`, found ";
    let hint = "; did you mean the prefix `layers/additive_attention/`?";
    assert_says(archive, [expected, hint]);
    let gru = error(keras::GRU, "keras.keras", "layers/reader/");
    assert_says(gru, "expected a tensor `layers/reader/cell/vars/0`, found ");
}

#[test]
fn an_lstm_is_no_gru() {
    let mxnet = error(d2l::mxnet::GRU, "small.params", "lstm.");
    let expected = "`lstm._unfused.0.i2h_weight`: expected the shape [3 * hidden_size, input_size], got [16, 5]: an \
                    LSTM has four gates, a GRU three";
    assert_says(mxnet, expected);
    let keras = error(keras::GRU, "keras.keras", "layers/lstm/");
    let expected = "expected the shape [5, 3 * hidden_size], got [5, 16]: an LSTM has four gates";
    assert_says(keras, [expected, "the names fit `keras::LSTM`"]);
}

#[test]
fn a_class_that_fits_is_told_by_its_constant() {
    for (package, expected) in [
        (d2l::tensorflow::GRU, "the names fit `keras::GRU`"),
        (keras::LSTM, "the names fit `keras::GRU`"),
    ] {
        let error = error(package, "keras2.h5", "model_weights/gru/gru/");
        assert_says(error, expected);
    }
    let heads = error(keras::MULTI_HEAD, "small.params", "heads.");
    assert_says(heads, "the names fit `d2l::mxnet::MULTI_HEAD`");
    let attention = error(keras::ADDITIVE, "mxnet.params", "attention.");
    assert_says(attention, "the names fit `d2l::mxnet::ADDITIVE`");
}

#[test]
fn the_path_of_a_layer_of_keras() {
    let size = |file: &str, prefix: &str| {
        let gru = load(keras::GRU, file, prefix).unwrap();
        gru.layers[0].hidden.weight.dims()[0]
    };
    // `save_weights("w.h5")` of Keras 2; a model in a model.
    assert_eq!(size("keras2_nested.h5", "inner/reader/"), 4);
    // The first in the model is the second that was made: by its author's name it is "gru_1".
    assert_eq!(size("keras2_counts.weights.h5", "layers/gru/"), 4);
    assert_eq!(size("keras2_counts.weights.h5", "layers/gru_1/"), 2);
}

/// Keras 2 writes `kernel:0`: every error and [`TensorFile::names`] leave the number out.
#[test]
fn names_of_keras_have_no_number_of_an_output() {
    let path = reference_path("frameworks").join("keras2_nested.h5");
    let names = ["bias", "kernel", "recurrent_kernel"];
    let expected = names.map(|name| format!("inner/reader/gru_cell/{name}"));
    let file = TensorFile::open(&path).unwrap();
    assert!(file.names().iter().eq(&expected));
    // Two names that then are one.
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(8).position(|part| part == b"\0bias:0\0");
    file[at.unwrap() + 1..][..6].copy_from_slice(b"kernel");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.h5");
    std::fs::write(&path, file).unwrap();
    let expected = "expected one array `inner/reader/gru_cell/kernel`, got two";
    assert_says(TensorFile::open(&path).unwrap_err(), expected);
}

#[test]
fn a_cut_file_of_keras_says_so() {
    let whole = std::fs::read(reference_path("frameworks").join("keras.h5")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.h5");
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let error = keras::GRU.load(&path, "model_weights/gru/gru/", &device::plain()[0]);
    let error = error.map(drop).unwrap_err();
    // As `main` prints it.
    assert_eq!(format!("{error:?}"), error.to_string());
    let malformed = "it begins as Keras' HDF5 and is malformed: ";
    assert_says(error, [malformed, ": a copy that was cut off?"]);
}

#[test]
fn heads_of_a_file_that_does_not_say_their_number() {
    let missing = error(d2l::mxnet::MULTI_HEAD, "mxnet.params", "heads.");
    let expected =
        "`heads.W_q.weight`: expected the shape [num_heads * head_size, query_size], got [6, 3]";
    assert_says(missing, expected);
    for number in [0, 4] {
        let package = d2l::mxnet::MULTI_HEAD.with_num_heads(number);
        let wrong = error(package, "mxnet.params", "heads.");
        assert_says(wrong, &format!("expected the shape [{number} * "));
    }
}

/// What many write does not say who did: there shapes alone tell.
#[test]
fn a_file_of_another_orientation_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paddle.safetensors");
    let tensors = ones_of(&[[3, 7], [5, 7], [7, 1]]);
    safetensors::write(&path, &tensors);
    let error = d2l::pytorch::ADDITIVE.load(path, "", &device::plain()[0]);
    let error = error.map(drop).unwrap_err();
    let of_shape = "`W_k.weight`: expected the shape [3, key_size], got [5, 7]";
    assert_says(error, [of_shape, "the names fit `d2l::paddle::ADDITIVE`"]);
}
