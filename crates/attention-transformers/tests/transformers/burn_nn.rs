//! Burn's Transformer and the one in its place: the same results.

use attention_core::Mask;
use attention_core::drop_in::generate_autoregressive_mask;
use attention_tests::{
    Array, Outcome, assert_close, assert_outcomes_close, device, parameters, refuses,
};
use attention_transformers::burn_nn as ours;
use burn::config::Config;
use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::transformer as burns;
use burn::tensor::{Device, Tensor};

const SIZE: usize = 12;
const BATCH: usize = 2;
const ROWS: usize = 5;
const KEYS: usize = 7;

/// Rounding of a result in f32, through two layers.
const CLOSE: f64 = 2e-5;

fn rows(seed: u64, rows: usize, device: &Device) -> Tensor<3> {
    Array::draw(seed, &[BATCH, rows, SIZE]).f32(device)
}

/// True where masked: of keys, every query keeps the first.
fn pad(keys: usize) -> Array {
    Array::from_fn(&[BATCH, keys], |at| f64::from(at[1] + at[0] >= keys - 1))
}

/// The output of a stack and all gradients of a loss of it.
fn outcome<const N: usize>(
    module: &impl Module,
    inputs: [Tensor<3>; N],
    forward: impl FnOnce([Tensor<3>; N]) -> Tensor<3>,
) -> Outcome {
    let inputs = inputs.map(Tensor::require_grad);
    let output = forward(inputs.clone());
    let factors = Array::draw(31, &output.dims()).f32::<3>(&output.device());
    let gradients = (output.clone() * factors).sum().backward();
    let mut outcome = parameters::gradients(module, Some(&gradients));
    for (at, input) in inputs.iter().enumerate() {
        let gradient = parameters::gradient(input, Some(&gradients));
        outcome.insert(format!("grad input {at}"), gradient);
    }
    // Softmax ignores the bias of keys: its gradient is rounding alone.
    outcome.retain(|name, _| !name.ends_with("key.bias"));
    outcome.insert("context".into(), Array::read(output));
    outcome
}

#[test]
fn an_encoder_is_burns() {
    use ActivationConfig::{Gelu, GeluApproximate, Relu, Tanh};
    device::each_training(|device| {
        let activations = || [Gelu, GeluApproximate, Relu, Tanh];
        let orders = [true, false].into_iter();
        for (norm_first, activation) in orders.flat_map(|it| activations().map(|of| (it, of))) {
            let what = format!("norm first: {norm_first}, {activation}");
            let theirs = burns::TransformerEncoderConfig::new(SIZE, 17, 3, 2)
                .with_dropout(0.0)
                .with_norm_first(norm_first)
                .with_activation(activation)
                .with_layer_norm_eps(1e-3);
            let text = theirs.to_string();
            let config = ours::TransformerEncoderConfig::load_binary(text.as_bytes()).unwrap();
            assert_eq!(config.to_string(), text);
            let theirs = theirs.init(device);
            let ours = config.init(device);
            let ours = ours.load_record(theirs.clone().into_record());
            let masks = || {
                let causal = generate_autoregressive_mask(BATCH, ROWS, device);
                (pad(ROWS).bool::<2>(device), causal)
            };
            macro_rules! outcome {
                ($module:ident, $of:ident) => {
                    outcome(&$module, [rows(1, ROWS, device)], |[rows]| {
                        let (pad, causal) = masks();
                        let input = $of::TransformerEncoderInput::new(rows);
                        $module.forward(input.mask_pad(pad).mask_attn(causal))
                    })
                };
            }
            let (mut expected, mut actual) = (outcome!(theirs, burns), outcome!(ours, ours));
            assert_eq!(actual.len(), 2 * (7 + 4 + 4) + 2, "{what}: results");
            if text.contains("Gelu") && !format!("{device:?}").contains("Flex") {
                // Burn's gradient of GELU is another function's on ndarray and wgpu, see docs/upstream.md.
                for outcome in [&mut actual, &mut expected] {
                    outcome.retain(|name, _| name == "context");
                }
            }
            assert_outcomes_close(&what, &actual, &expected, CLOSE);
            // A mask of the library's own.
            let input = ours::TransformerEncoderInput::new(rows(1, ROWS, device));
            let causal = input.mask(Mask::causal() & Mask::from(masks().0));
            let got = Array::read(ours.forward(causal));
            assert_close(&what, &got, &expected["context"], CLOSE);
            // The record, back in Burn's.
            let back = burns::TransformerEncoderConfig::load_binary(text.as_bytes()).unwrap();
            let back = back.init(device).load_record(ours.into_record());
            let (pad, causal) = masks();
            let input = burns::TransformerEncoderInput::new(rows(1, ROWS, device));
            let got = back.forward(input.mask_pad(pad).mask_attn(causal));
            assert_close(&what, got, &expected["context"], 1e-6);
        }
    });
}

#[test]
fn a_decoder_is_burns() {
    device::each_training(|device| {
        for norm_first in [true, false] {
            let what = format!("norm first: {norm_first}");
            let theirs = burns::TransformerDecoderConfig::new(SIZE, 17, 3, 2)
                .with_dropout(0.0)
                .with_norm_first(norm_first)
                .with_activation(ActivationConfig::Relu);
            let text = theirs.to_string();
            let config = ours::TransformerDecoderConfig::load_binary(text.as_bytes()).unwrap();
            assert_eq!(config.to_string(), text);
            let theirs = theirs.init(device);
            let ours = config.init(device);
            let ours = ours.load_record(theirs.clone().into_record());
            let pairs = Array::from_fn(&[BATCH, ROWS, KEYS], |at| {
                f64::from(at[2] > 0 && (at[0] + at[1] + at[2]) % 3 == 0)
            });
            let inputs = || [rows(1, ROWS, device), rows(2, KEYS, device)];
            let causal = || generate_autoregressive_mask(BATCH, ROWS, device);
            macro_rules! outcome {
                ($module:ident, $of:ident) => {
                    outcome(&$module, inputs(), |[target, memory]| {
                        let input = $of::TransformerDecoderInput::new(target, memory)
                            .target_mask_attn(causal())
                            .target_mask_pad(pad(ROWS).bool(device))
                            .memory_mask_pad(pad(KEYS).bool(device))
                            .memory_mask_attn(pairs.bool(device));
                        $module.forward(input)
                    })
                };
            }
            let (expected, actual) = (outcome!(theirs, burns), outcome!(ours, ours));
            assert_eq!(actual.len(), 2 * (2 * 7 + 4 + 6) + 3, "{what}: results");
            assert_outcomes_close(&what, &actual, &expected, CLOSE);
            let [target, memory] = inputs();
            let input = ours::TransformerDecoderInput::new(target, memory)
                .target_mask(Mask::causal() & Mask::from(pad(ROWS).bool::<2>(device)))
                .memory_mask(Mask::from(pad(KEYS).bool::<2>(device)))
                .memory_mask_attn(pairs.bool(device));
            let got = Array::read(ours.forward(input));
            assert_close(&what, &got, &expected["context"], CLOSE);
        }
    });
}

/// One row more in each call, then two at once.
#[test]
fn steps_with_a_cache_are_the_whole() {
    device::each(|device| {
        let [target, memory] = [rows(1, ROWS, device), rows(2, KEYS, device)];
        let first = |len| target.clone().narrow(1, 0, len);
        let pad = || pad(KEYS).bool::<2>(device);
        let orders = [true, false].into_iter();
        let cases = orders.flat_map(|it| [(it, &[1, 2, 3, 4, 5][..]), (it, &[2, 3, 5])]);
        for (norm_first, lens) in cases {
            let what = format!("norm first: {norm_first}, lengths {lens:?}");
            macro_rules! check {
                ($what:literal, $config:expr, $input:ident) => {{
                    let stack = $config.with_norm_first(norm_first).init(device);
                    let expected = Array::read(stack.forward($input(ROWS)));
                    let mut cache = stack.new_autoregressive_cache();
                    let mut last = None;
                    for &len in lens {
                        let step = stack.forward_autoregressive_inference($input(len), &mut cache);
                        last = Some(Array::read(step));
                    }
                    let what = format!("{}, {what}", $what);
                    assert_close(what, &last.expect("a step"), &expected, CLOSE);
                    (stack, cache)
                }};
            }
            let input = |len| ours::TransformerEncoderInput::new(first(len)).mask(Mask::causal());
            let config = ours::TransformerEncoderConfig::new(SIZE, 17, 3, 2);
            let (encoder, mut cache) = check!("encoder", config, input);
            refuses("expected more rows than the 5", || {
                encoder.forward_autoregressive_inference(input(ROWS), &mut cache)
            });
            let input = |len| {
                let input = ours::TransformerDecoderInput::new(first(len), memory.clone());
                input.target_mask(Mask::causal()).memory_mask_pad(pad())
            };
            let config = ours::TransformerDecoderConfig::new(SIZE, 17, 3, 2);
            let (_, mut cache) = check!("decoder", config, input);
            let other = ours::TransformerDecoderConfig::new(SIZE, 17, 3, 1).init(device);
            refuses("a cache of 1 layers expected", || {
                other.forward_autoregressive_inference(input(ROWS), &mut cache)
            });
        }
    });
}
