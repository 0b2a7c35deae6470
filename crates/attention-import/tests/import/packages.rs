//! Attentions of other packages, loaded by the names in files of the packages themselves, have the packages' weights
//! and contexts, step for step.

use attention_core::stateful::{ForwardAttention, LocationAttention, StatefulAttention};
use attention_import::packages::{
    Package, allennlp, coqui, espnet, fairseq, gluonnlp, joeynmt, keras, keras_attention,
    keras_self_attention, nvidia, onnx_runtime, opennmt, pytorch_nlp, sockeye, speechbrain,
    tensorflow_addons, texar, yoyodyne,
};
use attention_tests::{
    Array, Case, MaskSpec, assert_close, assert_says, assert_zero, device, reference,
    reference_path,
};
use burn::tensor::{Device, Tensor};

/// A package's own result and gradients, and ours.
struct Check<'a> {
    case: &'a Case,
    device: &'a Device,
    tolerance: f64,
}

impl Check<'_> {
    fn load<A>(&self, package: &Package<A>) -> A {
        let file = |end| reference_path(&format!("packages/{}.{end}", self.case.name));
        let files = ["safetensors", "pt"].map(file);
        let file = files.iter().find(|file| file.exists()).unwrap();
        package.load(file, &self.case.prefix, self.device).unwrap()
    }

    fn of<A: StatefulAttention>(&self, package: &Package<A>) {
        self.steps(&self.load(package), |state, _| state);
    }

    /// As the package's, with `given` handed in before each step.
    fn steps<A: StatefulAttention>(
        &self,
        attention: &A,
        given: impl Fn(A::State, usize) -> A::State,
    ) {
        let Self { case, device, .. } = self;
        let leaf = |name: &str| case.inputs[name].leaf::<3>(device, burn::tensor::DType::F32);
        let (keys, queries) = (leaf("keys"), leaf("queries"));
        let memory = attention.prepare(keys.clone(), keys.clone(), case.mask.mask(device));
        let mut state = attention.initial_state(&memory);
        let (mut contexts, mut weights) = (Vec::new(), Vec::new());
        for step in 0..queries.dims()[1] {
            state = given(state, step);
            let query = queries.clone().narrow(1, step, 1);
            let (output, next) = attention.step_with_weights(query, &memory, state);
            contexts.push(output.context);
            weights.push(output.weights);
            state = next;
        }
        let (context, weights) = (Tensor::cat(contexts, 1), Tensor::cat(weights, 1));
        let name = &case.name;
        // ESPnet's least product of 1e-6 is on padding, too, which takes its share of the weights.
        let leaks = name.starts_with("espnet_att_forward");
        let tolerance = if leaks { 3e-5 } else { self.tolerance };
        if !matches!(case.mask, MaskSpec::None) {
            // One key of the last example is not padding.
            let steps = weights.dims()[1];
            assert_zero(name, weights.clone().slice([2..3, 0..steps, 1..5]));
        }
        if let Some(expected) = case.outputs.get("weights") {
            assert_close(format!("{name}: weights"), weights, expected, tolerance);
        }
        let (what, expected) = (format!("{name}: context"), &case.outputs["context"]);
        assert_close(what, context.clone(), expected, tolerance);
        if case.gradients.is_empty() {
            return;
        }
        let received = case.inputs["grad_context"].f32::<3>(device);
        let gradients = (context * received).sum().backward();
        for (what, leaf) in [("keys", keys), ("queries", queries)] {
            let (got, expected) = (leaf.grad(&gradients).unwrap(), &case.gradients[what]);
            assert_close(format!("{name}: {what}"), got, expected, 2.0 * tolerance);
        }
    }

    fn with_outputs(&self, package: &Package<ForwardAttention<LocationAttention>>) {
        let outputs = self.case.inputs["outputs"].f32::<3>(self.device);
        self.steps(&self.load(package), |state, step| {
            state.with_output(outputs.clone().narrow(1, step, 1).squeeze_dim(1))
        });
    }
}

/// Runs a check of each case on each device.
fn each(cases: &[Case], tolerance: f64, check: impl Fn(&str, Check)) {
    device::each_training(|device| {
        for case in cases {
            let of_case = Check {
                case,
                device,
                tolerance,
            };
            check(&case.name, of_case);
        }
    });
}

#[test]
fn loaded_attentions_are_the_packages() {
    let mut cases = reference("packages");
    cases.extend(reference("packages_tensorflow"));
    each(&cases, 1e-5, |name, check| match name {
        "espnet_att_add" => check.of(&espnet::ATT_ADD),
        "espnet_att_dot" => check.of(&espnet::ATT_DOT),
        "espnet_att_loc" => check.of(&espnet::ATT_LOC),
        "espnet_att_loc_cumulative" => check.of(&espnet::ATT_LOC_CUMULATIVE),
        "espnet_att_cov" => check.of(&espnet::ATT_COV),
        "espnet_att_cov_loc" => check.of(&espnet::ATT_COV_LOC),
        "espnet_att_forward" => check.of(&espnet::ATT_FORWARD),
        "espnet_att_forward_ta" => check.with_outputs(&espnet::ATT_FORWARD_TA),
        "speechbrain_content" => check.of(&speechbrain::CONTENT_BASED),
        "speechbrain_location" => check.of(&speechbrain::LOCATION_AWARE),
        "speechbrain_key_value" => check.of(&speechbrain::KEY_VALUE),
        "coqui_content" => check.of(&coqui::CONTENT),
        "coqui_original" => check.of(&coqui::ORIGINAL),
        "coqui_sigmoid" => check.of(&coqui::SIGMOID),
        "coqui_forward" => check.of(&coqui::FORWARD),
        "coqui_forward_agent" => check.of(&coqui::FORWARD_AGENT),
        "coqui_forward_sigmoid" => check.of(&coqui::FORWARD_SIGMOID),
        "coqui_forward_agent_sigmoid" => check.of(&coqui::FORWARD_AGENT_SIGMOID),
        "opennmt_mlp" => check.of(&opennmt::MLP),
        "opennmt_general" => check.of(&opennmt::GENERAL),
        "opennmt_dot" => check.of(&opennmt::DOT),
        "joeynmt_bahdanau" => check.of(&joeynmt::BAHDANAU),
        "joeynmt_luong" => check.of(&joeynmt::LUONG),
        "allennlp_additive" => check.of(&allennlp::ADDITIVE),
        "allennlp_bilinear" => check.of(&allennlp::BILINEAR),
        "fairseq" => check.of(&fairseq::ATTENTION_LAYER),
        "yoyodyne" => check.of(&yoyodyne::ATTENTION),
        "texar" => check.of(&texar::BAHDANAU),
        "texar_luong" => check.of(&texar::LUONG),
        "keras_additive" => check.of(&keras::ADDITIVE),
        "sockeye" => check.of(&sockeye::MLP),
        "tensorflow_addons" => check.of(&tensorflow_addons::BAHDANAU),
        other => panic!("no package for {other}"),
    });
    assert_eq!(cases.len(), 32);
}

/// Attentions of packages that need other frameworks; the files are of generate_attentions.py.
#[test]
fn loaded_attentions_are_those_of_other_frameworks() {
    let cases = ["torch", "tensorflow", "mxnet", "onnxruntime"];
    let cases = cases.map(|framework| reference(&format!("attentions_{framework}")));
    let cases = cases.into_iter().flatten().collect::<Vec<_>>();
    each(&cases, 1e-6, |name, check| match name {
        "nvidia_tacotron2" => check.of(&nvidia::TACOTRON2),
        "pytorch_nlp" => check.of(&pytorch_nlp::GENERAL),
        "keras_attention_bahdanau" => check.of(&keras_attention::BAHDANAU),
        "keras_attention_luong" => check.of(&keras_attention::LUONG),
        "keras_self_attention_additive" => check.of(&keras_self_attention::ADDITIVE),
        "keras_self_attention_multiplicative" => check.of(&keras_self_attention::MULTIPLICATIVE),
        "gluonnlp_mlp" => check.of(&gluonnlp::MLP),
        "gluonnlp_normalized_mlp" => check.of(&gluonnlp::NORMALIZED_MLP),
        "onnx_runtime_attn_lstm" => check.of(&onnx_runtime::ATTN_LSTM),
        "onnx_runtime_attn_lstm_with_aw" => check.of(&onnx_runtime::ATTN_LSTM_WITH_AW),
        other => panic!("no package for {other}"),
    });
    assert_eq!(cases.len(), 10);
}

#[test]
fn a_file_that_does_not_fit_says_why() {
    let device = &device::plain()[0];
    let file = |name: &str| reference_path(&format!("packages/{name}"));
    let error = |result: Result<_, _>| match result {
        Ok(()) => panic!("a file that does not fit is loaded"),
        Err(error) => format!("{error}"),
    };
    let content = file("speechbrain_content.safetensors");
    let other = espnet::ATT_ADD.load(&content, "decoder.attn.", device);
    let other = error(other.map(drop));
    assert_says(&other, "expected a tensor `decoder.attn.gvec.weight`");
    assert_says(&other, "the names fit `speechbrain::CONTENT_BASED`");
    // More than there should be: the filters of another attention.
    let location = file("espnet_att_loc_cumulative.safetensors");
    let extra = espnet::ATT_ADD.load(&location, "dec.att.", device);
    let extra = error(extra.map(drop));
    assert_says(&extra, "ESPnet's AttAdd has none of this name");
    let fitting = "the names fit `espnet::ATT_LOC` or `espnet::ATT_LOC_CUMULATIVE` or `espnet::ATT_COV_LOC` or \
                   `espnet::ATT_FORWARD`";
    assert_says(&extra, fitting);
    let prefix = espnet::ATT_ADD.load(file("espnet_att_add.safetensors"), "dec.", device);
    let prefix = error(prefix.map(drop));
    assert_says(&prefix, "the nearest `decoder.att.0.mlp_enc.weight`");
    assert_says(&prefix, "did you mean the prefix `decoder.att.0.`?");
    let misshapen = espnet::ATT_ADD.load(file("misshapen.safetensors"), "", device);
    let expected = "`mlp_dec.weight`: expected the shape [7, query_size], got [8, 3]";
    assert_says(error(misshapen.map(drop)), expected);
    let factor = espnet::ATT_ADD.with_factor(f64::NAN);
    let factor = factor.load(file("espnet_att_add.safetensors"), "decoder.att.0.", device);
    assert_says(error(factor.map(drop)), "expected a finite factor, got NaN");
}

/// The factor is a factor on the energies: the file of a factor of 2, loaded with 1, has their square roots.
#[test]
fn the_factor_is_on_the_energies() {
    let device = &device::plain()[0];
    let path = reference_path("packages/espnet_att_add.safetensors");
    let keys = Array::draw(1, &[1, 4, 5]).f32::<3>(device);
    let query = Array::draw(2, &[1, 1, 3]).f32::<3>(device);
    let weights = [2.0, 1.0].map(|factor| {
        let package = espnet::ATT_ADD.with_factor(factor);
        let attention = package.load(&path, "decoder.att.0.", device).unwrap();
        let none = attention_core::Mask::none();
        let (query, keys) = (query.clone(), keys.clone());
        let output = attention.forward_with_weights(query, keys.clone(), keys, none);
        output.weights
    });
    let [twice, once] = weights;
    let squares = once.clone() * once;
    let expected = Array::read(squares.clone() / squares.sum_dim(2));
    assert_close("factor", twice, &expected, 1e-6);
}
