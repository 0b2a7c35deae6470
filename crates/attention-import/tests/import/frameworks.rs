//! Files that other frameworks wrote compute what they do there: D2L's layers of each, Keras' own, Marian's attention.

use attention_core::{AdditiveAttention, Mask, MultiHeadAttention, ScoringFunction};
use attention_import::StateDict;
use attention_import::packages::{Package, d2l, keras, marian};
use attention_tests::{
    Array, Case, assert_close, assert_says, assert_zero, device, reference, reference_path,
};
use burn::module::Param;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::recurrent::{Recurrent, Steps};

/// How far a result may be from the framework's, in f32.
const NEAR: f64 = 1e-6;

/// A file in `tests/reference/frameworks`, and the case of a framework there.
struct Check<'a> {
    device: &'a Device,
    framework: &'a str,
    file: &'a str,
}

impl Check<'_> {
    fn case(&self, name: &str) -> Case {
        let mut cases = reference(&format!("frameworks/{}", self.framework)).into_iter();
        let case = cases.find(|case| case.name == name);
        case.unwrap_or_else(|| panic!("no case {name} of {}", self.framework))
    }

    fn load<A>(&self, package: &Package<A>, prefix: &str) -> A {
        let path = reference_path("frameworks").join(self.file);
        let loaded = package.load(path, prefix, self.device);
        loaded.unwrap_or_else(|error| panic!("{error}"))
    }

    fn inputs(&self, case: &Case) -> ([Tensor<3>; 3], Mask) {
        let input = |name| case.inputs[name].f32(self.device);
        let mask = case.mask.mask(self.device);
        (["queries", "keys", "values"].map(input), mask)
    }

    fn additive(&self, package: &Package<AdditiveAttention>, prefix: &str) {
        let case = self.case("additive");
        let ([queries, keys, values], mask) = self.inputs(&case);
        let attention = self.load(package, prefix);
        let output = attention.forward_with_weights(queries, keys, values, mask);
        self.compare(&case, "weights", output.weights.clone());
        self.compare(&case, "context", output.context);
        // One key of the last example is not padding.
        assert_zero(self.file, output.weights.slice([2..3, 0..2, 1..5]));
    }

    fn heads<S: ScoringFunction>(
        &self,
        name: &str,
        package: &Package<MultiHeadAttention<S>>,
        prefix: &str,
    ) {
        let case = self.case(name);
        let ([queries, keys, values], mask) = self.inputs(&case);
        let attention = self.load(package, prefix);
        assert_eq!(attention.num_heads(), 2);
        let output = attention.forward_with_weights(queries, keys, values, mask);
        self.compare(&case, "weights", output.weights.clone());
        self.compare(&case, "context", output.context);
        assert_zero(self.file, output.weights.slice([2..3, 0..2, 0..2, 1..5]));
    }

    /// Over seven steps.
    fn recurrent(&self, name: &str, package: &Package<Recurrent>, prefix: &str) {
        let case = self.case(name);
        let input = case.inputs["steps"].f32::<3>(self.device);
        assert_eq!(input.dims()[1], 7);
        let layers = self.load(package, prefix);
        let (outputs, _) = layers.forward(input, None, &Steps::all());
        self.compare(&case, "outputs", outputs);
    }

    fn compare<const D: usize>(&self, case: &Case, what: &str, actual: Tensor<D>) {
        let name = format!("{}: {} {what}", self.file, case.name);
        assert_close(name, actual, &case.outputs[what], NEAR);
    }
}

/// Runs on each device without autodiff.
fn each(framework: &str, files: &[&str], check: impl Fn(Check)) {
    for device in &device::plain() {
        for file in files {
            check(Check {
                device,
                framework,
                file,
            });
        }
    }
}

#[test]
fn pytorch_in_each_of_its_files() {
    use d2l::pytorch::{ADDITIVE, GRU, MULTI_HEAD};
    let files = ["pytorch.pt", "torchscript.pt", "exported.pt2"];
    each("pytorch", &files, |file| {
        file.additive(&ADDITIVE, "attention.");
        file.heads("multi_head", &MULTI_HEAD.with_num_heads(2), "heads.");
        file.recurrent("gru", &GRU, "rnn.");
    });
}

#[test]
fn mxnet() {
    use d2l::mxnet::{ADDITIVE, GRU, MULTI_HEAD};
    each("mxnet", &["mxnet.params"], |file| {
        file.additive(&ADDITIVE, "attention.");
        file.heads("multi_head", &MULTI_HEAD.with_num_heads(2), "heads.");
        file.recurrent("gru", &GRU, "rnn.");
    });
}

#[test]
fn tensorflow() {
    use d2l::tensorflow::{ADDITIVE, GRU, MULTI_HEAD};
    each("tensorflow", &["tensorflow.weights.h5"], |file| {
        file.additive(&ADDITIVE, "layers/additive_attention/");
        let heads = MULTI_HEAD.with_num_heads(2);
        file.heads("multi_head", &heads, "layers/multi_head_attention/");
        file.recurrent("gru", &GRU, "rnn/");
    });
}

#[test]
fn jax() {
    use d2l::jax::{ADDITIVE, GRU, MULTI_HEAD};
    each("jax", &["jax.msgpack"], |file| {
        file.additive(&ADDITIVE, "params/attention/");
        file.heads("multi_head", &MULTI_HEAD.with_num_heads(2), "params/heads/");
        file.heads("flax_multi_head", &keras::MULTI_HEAD, "params/flax/");
        file.recurrent("gru", &GRU, "params/rnn/");
    });
}

#[test]
fn paddle() {
    use d2l::paddle::{ADDITIVE, GRU, MULTI_HEAD};
    each("paddle", &["paddle.pdparams"], |file| {
        file.additive(&ADDITIVE, "attention.");
        file.heads("multi_head", &MULTI_HEAD.with_num_heads(2), "heads.");
        file.recurrent("gru", &GRU, "rnn.");
    });
}

#[test]
fn keras_of_both_versions() {
    let layers = |file: &Check, prefix: &dyn Fn(&str, &str) -> String| {
        let at = |class: &str| prefix(class, class);
        file.additive(&keras::ADDITIVE, &prefix("additive_attention", "score"));
        let heads = at("multi_head_attention");
        file.heads("multi_head", &keras::MULTI_HEAD, &heads);
        file.recurrent("gru", &keras::GRU, &at("gru"));
        file.recurrent("lstm", &keras::LSTM, &at("lstm"));
    };
    for (framework, others) in [("keras", "keras.keras"), ("keras2", "keras2.weights.h5")] {
        each(framework, &[&format!("{framework}.h5")], |file| {
            // By the author's name.
            layers(&file, &|_, name| format!("model_weights/{name}/{name}/"));
        });
        each(framework, &[others], |file| {
            layers(&file, &|class, _| format!("layers/{class}/"));
        });
    }
}

#[test]
fn marian_attention() {
    each("marian", &["marian.npz"], |file| {
        file.additive(&marian::RNN_ATTENTION, "decoder_");
    });
}

#[test]
fn half_precision_and_objects_of_paddle() {
    let device = &device::plain()[0];
    let load = |file: &str, prefix: &str| {
        let path = reference_path("frameworks").join(file);
        let loaded = d2l::paddle::ADDITIVE.load(path, prefix, device);
        Array::read(loaded.unwrap().score.query.weight.val())
    };
    let whole = load("paddle.pdparams", "attention.");
    // Multiples of 1/64 below 4 are numbers of bf16 where they have no more than eight digits.
    let half = load("paddle_nested.pdparams", "model.");
    assert_close("bf16", &half, &whole, 4e-3);
}

#[test]
fn half_precision_of_keras() {
    let path = reference_path("frameworks").join("keras_half.weights.h5");
    let file = StateDict::open(&path, "layers/dense/vars/").unwrap();
    let param = Param::from_tensor(Tensor::<2>::zeros([3, 2], &device::plain()[0]));
    let kernel = Array::read(file.parameter(param, "0").unwrap().val());
    // By the script that wrote the file.
    assert_eq!(kernel.data[..3], [0.046875, -0.03125, 0.171875]);
}

#[test]
fn arrays_of_numpy_and_mlx() {
    let device = &device::plain()[0];
    let expected = &reference("frameworks/mlx")[0].inputs["matrix"];
    let matrix = |file: &str, name: &str| {
        let path = reference_path("frameworks").join(file);
        let file = StateDict::open(&path, "").unwrap();
        let param = Param::from_tensor(Tensor::<2>::zeros([2, 3], device));
        let loaded = file.parameter(param, name);
        loaded.map(|loaded| Array::read(loaded.val()))
    };
    for (file, name) in [
        ("fortran.npy", "arr_0"),
        ("compressed.npz", "a/weight"),
        ("compressed.npz", "column"),
        ("mlx.npz", "single"),
    ] {
        assert_close(file, &matrix(file, name).unwrap(), expected, 0.0);
    }
    assert_close("bf16", &matrix("mlx.npz", "half").unwrap(), expected, 4e-3);
    let error = matrix("compressed.npz", "big").unwrap_err();
    assert_says(error, "`big`: expected numbers in little-endian order");
    assert_says(matrix("compressed.npz", "words").unwrap_err(), "got <U1");
}

#[test]
fn big_endian_hdf5_is_an_error() {
    let whole = std::fs::read(reference_path("frameworks").join("keras.h5")).unwrap();
    // The type of floats, whose second byte has the order.
    let float = b"\x11\x20\x1f\0\x04\0\0\0";
    let mut changed = whole.clone();
    for at in (0..whole.len()).filter(|&at| whole[at..].starts_with(float)) {
        changed[at + 1] = 0x21;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.h5");
    std::fs::write(&path, changed).unwrap();
    let error = keras::GRU.load(&path, "model_weights/gru/gru/", &device::plain()[0]);
    let error = error.map(drop).unwrap_err();
    let expected =
        "`model_weights/gru/gru/gru_cell/kernel`: expected numbers in little-endian order";
    assert_says(error, expected);
}
