//! Burn's Transformer and the one in its place: the same results.

use attention_core::Mask;
use attention_core::drop_in::generate_autoregressive_mask;
use attention_tests::{
    Array, Outcome, assert_close, assert_outcomes_close, device, panic_message, parameters,
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

fn activations() -> [ActivationConfig; 4] {
    [
        ActivationConfig::Gelu,
        ActivationConfig::GeluApproximate,
        ActivationConfig::Relu,
        ActivationConfig::Tanh,
    ]
}

#[test]
fn an_encoder_is_burns() {
    device::each_training(|device| {
        for (norm_first, activation) in [true, false]
            .into_iter()
            .flat_map(|order| activations().map(|activation| (order, activation)))
        {
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
            let ours = config
                .init(device)
                .load_record(theirs.clone().into_record());
            let masks = || {
                let causal = generate_autoregressive_mask(BATCH, ROWS, device);
                (pad(ROWS).bool::<2>(device), causal)
            };
            let mut expected = outcome(&theirs, [rows(1, ROWS, device)], |[rows]| {
                let (pad, causal) = masks();
                let input = burns::TransformerEncoderInput::new(rows);
                theirs.forward(input.mask_pad(pad).mask_attn(causal))
            });
            let mut actual = outcome(&ours, [rows(1, ROWS, device)], |[rows]| {
                let (pad, causal) = masks();
                let input = ours::TransformerEncoderInput::new(rows);
                ours.forward(input.mask_pad(pad).mask_attn(causal))
            });
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
            let ours = config
                .init(device)
                .load_record(theirs.clone().into_record());
            let pairs = Array::from_fn(&[BATCH, ROWS, KEYS], |at| {
                f64::from(at[2] > 0 && (at[0] + at[1] + at[2]) % 3 == 0)
            });
            let inputs = || [rows(1, ROWS, device), rows(2, KEYS, device)];
            let causal = || generate_autoregressive_mask(BATCH, ROWS, device);
            let expected = outcome(&theirs, inputs(), |[target, memory]| {
                let input = burns::TransformerDecoderInput::new(target, memory)
                    .target_mask_attn(causal())
                    .target_mask_pad(pad(ROWS).bool(device))
                    .memory_mask_pad(pad(KEYS).bool(device))
                    .memory_mask_attn(pairs.bool(device));
                theirs.forward(input)
            });
            let actual = outcome(&ours, inputs(), |[target, memory]| {
                let input = ours::TransformerDecoderInput::new(target, memory)
                    .target_mask_attn(causal())
                    .target_mask_pad(pad(ROWS).bool(device))
                    .memory_mask_pad(pad(KEYS).bool(device))
                    .memory_mask_attn(pairs.bool(device));
                ours.forward(input)
            });
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
        for (norm_first, lens) in [true, false]
            .into_iter()
            .flat_map(|order| [(order, &[1, 2, 3, 4, 5][..]), (order, &[2, 3, 5])])
        {
            let what = format!("norm first: {norm_first}, lengths {lens:?}");
            let encoder = ours::TransformerEncoderConfig::new(SIZE, 17, 3, 2)
                .with_norm_first(norm_first)
                .init(device);
            let input = |len| ours::TransformerEncoderInput::new(first(len)).mask(Mask::causal());
            let expected = Array::read(encoder.forward(input(ROWS)));
            let mut cache = encoder.new_autoregressive_cache();
            let mut last = None;
            for &len in lens {
                last = Some(encoder.forward_autoregressive_inference(input(len), &mut cache));
            }
            let got = Array::read(last.expect("a step"));
            assert_close(format!("encoder, {what}"), &got, &expected, CLOSE);
            let refused =
                panic_message(|| encoder.forward_autoregressive_inference(input(ROWS), &mut cache));
            assert!(
                refused.contains("expected more rows than the 5"),
                "{refused}"
            );

            let decoder = ours::TransformerDecoderConfig::new(SIZE, 17, 3, 2)
                .with_norm_first(norm_first)
                .init(device);
            let input = |len| {
                let input = ours::TransformerDecoderInput::new(first(len), memory.clone());
                input.target_mask(Mask::causal()).memory_mask_pad(pad())
            };
            let expected = Array::read(decoder.forward(input(ROWS)));
            let mut cache = decoder.new_autoregressive_cache();
            let mut last = None;
            for &len in lens {
                last = Some(decoder.forward_autoregressive_inference(input(len), &mut cache));
            }
            let got = Array::read(last.expect("a step"));
            assert_close(format!("decoder, {what}"), &got, &expected, CLOSE);
            let other = ours::TransformerDecoderConfig::new(SIZE, 17, 3, 1).init(device);
            let refused =
                panic_message(|| other.forward_autoregressive_inference(input(ROWS), &mut cache));
            assert!(
                refused.contains("a cache of 1 layers expected"),
                "{refused}"
            );
        }
    });
}
