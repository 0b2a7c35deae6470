//! Half precision and records.

use attention_core::{DotProductScore, Mask, NewRows};
use attention_tests::{Array, assert_close, assert_same, device, parameters};
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    FeedForwardActivation, NormOrder, TransformerEncoder, TransformerEncoderConfig,
};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::models::{HIDDENS, drawn, half_is_near, layer, lens, sinusoidal, tensor, text};

/// Stacks of each order and norm.
fn stacks(device: &Device) -> Vec<TransformerEncoder<DotProductScore>> {
    let gated = layer()
        .with_norm(NormConfig::rms())
        .with_activation(FeedForwardActivation::SwiGlu);
    let layers = [
        layer().with_activation(FeedForwardActivation::Gelu),
        layer().with_norm_order(NormOrder::Post),
        gated.clone(),
        gated.with_norm_order(NormOrder::Sandwich),
    ];
    let stack = |layer| drawn(TransformerEncoderConfig::new(layer, 2).init(device));
    layers.map(stack).into()
}

#[test]
fn half_precision_is_near() {
    device::each(|device| {
        for (at, stack) in stacks(device).into_iter().enumerate() {
            let name = format!("stack {at}");
            half_is_near((&name, stack), device, 8.0, |stack, dtype| {
                let rows = Array::draw(1, &[2, 5, HIDDENS]).tensor::<3>(device, dtype);
                let mask = Mask::valid_lens(lens(&[5, 3], device)) & Mask::causal();
                stack.forward(rows, mask)
            });
        }
    });
}

#[test]
fn a_record_restores_every_parameter() {
    let folder = tempfile::tempdir().unwrap();
    device::each_both_ways(|device| {
        for (at, stack) in stacks(device).into_iter().enumerate() {
            let path = folder.path().join(format!("stack{at}"));
            stack.clone().save_file(&path).unwrap();
            let fresh = parameters::changed(stack.clone(), |_, value| value.map(|x| x + 1.0));
            let loaded = fresh.try_load_file(&path).unwrap();
            let (got, expected) = (parameters::values(&loaded), parameters::values(&stack));
            assert!(expected.len() >= 2 * 14, "{at}");
            for (name, expected) in &expected {
                assert_same(name, &got[name], expected);
            }
        }
    });
}

/// A model that was trained on an autodiff device generates without it.
#[test]
fn a_trained_model_runs_without_autodiff() {
    device::each(|device| {
        let model = sinusoidal(&device.clone().autodiff(), layer());
        let tokens = || tensor(&text(1, [2, 5]), device);
        let valid = model.valid();
        let mut cache = valid.cache();
        let cached: Tensor<3> = valid.forward_cached(tokens(), NewRows::All, &mut cache);
        assert_close("valid", cached, valid.forward(tokens(), NewRows::All), 1e-5);
    });
}

/// Each of the three places, by itself.
#[test]
fn dropout_is_for_training() {
    device::each(|device| {
        let training = device.clone().autodiff();
        let stack = |layer| drawn(TransformerEncoderConfig::new(layer, 2).init(&training));
        let rows = |device: &Device| Array::draw(1, &[2, 5, HIDDENS]).f32::<3>(device);
        let expected = stack(layer()).valid().forward(rows(device), Mask::none());
        let expected = Array::read(expected);
        for layer in [
            layer().with_dropout(0.5),
            layer().with_attention_dropout(0.5),
            layer().with_feed_forward_dropout(0.5),
        ] {
            let stack = stack(layer);
            let dropped = Array::read(stack.forward(rows(&training), Mask::none()));
            assert_ne!(dropped, expected, "nothing was dropped");
            let whole = stack.valid().forward(rows(device), Mask::none());
            assert_same("without training", whole, &expected);
        }
    });
}
