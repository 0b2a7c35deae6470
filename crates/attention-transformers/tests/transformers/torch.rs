//! State dicts of PyTorch's Transformer layers and stacks.

use attention_tests::{
    Array, TransformerCase, assert_close, assert_same, assert_says, device, parameters,
    reference_path, transformer_reference,
};
use attention_transformers::layer::NormConfig;
use attention_transformers::torch::{
    load_transformer_decoder, load_transformer_decoder_layer, load_transformer_encoder,
    load_transformer_encoder_layer,
};
use attention_transformers::{
    FeedForwardActivation, NormOrder, TransformerDecoderConfig, TransformerEncoderConfig,
    TransformerLayerConfig,
};
use burn::tensor::Device;

use crate::references::{decoder_config, encoder_config, layer_config, mask_of, memory_mask_of};

const STACKS: &str = "import/transformer.pt";
const ENCODER_LAYER: &str = "import/transformer_encoder_layer.pt";
const DECODER_LAYER: &str = "import/transformer_decoder_layer.safetensors";
const WITHOUT_BIAS: &str = "import/transformer_encoder_layer_without_bias.safetensors";

/// The cases of layers as PyTorch has them, in both orders.
fn cases(name: &str) -> Vec<TransformerCase> {
    let cases = transformer_reference(name).into_iter();
    cases.filter(|case| case.order != "sandwich").collect()
}

fn check(case: &TransformerCase, output: Array) {
    assert_close(&case.name, &output, &case.outputs["output"], 5e-6);
}

#[test]
fn encoders_compute_what_pytorch_does_with_their_state_dicts() {
    device::each(|device| {
        for case in cases("transformer_encoder") {
            let rows = case.inputs["rows"].f32(device);
            let mask = mask_of(&case, device);
            let output = if case.name.starts_with("stack") {
                let stack = encoder_config(&case).init(device);
                let stack = load_transformer_encoder(stack, reference_path(STACKS), "encoder.");
                stack.unwrap().forward(rows, &mask)
            } else {
                let layer = layer_config(&case).init_encoder(device);
                let path = reference_path(ENCODER_LAYER);
                let layer = load_transformer_encoder_layer(layer, path, "");
                layer.unwrap().forward(rows, &mask)
            };
            check(&case, Array::read(output));
        }
    });
}

#[test]
fn decoders_compute_what_pytorch_does_with_their_state_dicts() {
    device::each(|device| {
        for case in cases("transformer_decoder") {
            let [rows, memory] = ["rows", "memory"].map(|name| case.inputs[name].f32(device));
            let [mask, of_memory] = [mask_of(&case, device), memory_mask_of(&case, device)];
            let output = if case.name.starts_with("stack") {
                let stack = decoder_config(&case).init(device);
                let stack = load_transformer_decoder(stack, reference_path(STACKS), "decoder.");
                let stack = stack.unwrap();
                stack.forward(rows, &mask, &stack.prepare(memory, of_memory))
            } else {
                let layer = layer_config(&case).init_decoder(device);
                let path = reference_path(DECODER_LAYER);
                let layer = load_transformer_decoder_layer(layer, path, "").unwrap();
                layer.forward(rows, &mask, &layer.prepare(memory, of_memory))
            };
            check(&case, Array::read(output));
        }
    });
}

#[test]
fn a_layer_without_biases_has_the_weights_of_one_with_biases() {
    let device = &device::plain()[0];
    let config = TransformerLayerConfig::new(8, 2, 7);
    let with = config.init_encoder(device);
    let with = load_transformer_encoder_layer(with, reference_path(ENCODER_LAYER), "").unwrap();
    let config = config
        .with_attention_bias(false)
        .with_feed_forward_bias(false);
    let without = config.with_norm(norm_without_bias()).init_encoder(device);
    let without = load_transformer_encoder_layer(without, reference_path(WITHOUT_BIAS), "");
    let [with, without] = [with, without.unwrap()].map(|layer| parameters::values(&layer));
    let is_bias = |path: &String| path.ends_with(".bias") || path.ends_with(".beta");
    assert!(!without.keys().any(is_bias) && without.len() == 8);
    for (path, weight) in &without {
        assert_same(path, weight, &with[path]);
    }
}

fn norm_without_bias() -> NormConfig {
    let (epsilon, bias) = (1e-5, false);
    NormConfig::Layer { epsilon, bias }
}

/// The error of a load names the file and says each of `expected`.
fn assert_error(file: &str, error: Option<String>, expected: &[&str]) {
    let error = error.unwrap_or_else(|| panic!("{file}: expected an error of {expected:?}"));
    assert_says(&error, expected);
    assert_says(&error, file);
    assert_eq!(error.lines().count(), 1, "{error}");
}

fn error_of(config: TransformerEncoderConfig, prefix: &str, device: &Device) -> Option<String> {
    let loaded = load_transformer_encoder(config.init(device), reference_path(STACKS), prefix);
    loaded.err().map(|error| error.to_string())
}

#[test]
fn a_stack_of_another_configuration_is_an_error_that_names_a_tensor() {
    let device = &device::plain()[0];
    let layer = || TransformerLayerConfig::new(8, 2, 7);
    let stack = |layer| TransformerEncoderConfig::new(layer, 2);
    assert_eq!(error_of(stack(layer()), "encoder.", device), None);
    let norm = norm_without_bias();
    #[rustfmt::skip]
    let cases: [(_, &[&str]); 11] = [
        (TransformerEncoderConfig::new(layer(), 1), &["no tensor `encoder.layers.1.", "the number of layers is 1"]),
        (
            TransformerEncoderConfig::new(layer(), 3),
            &["expected a tensor `encoder.layers.2.self_attn.in_proj_weight`"],
        ),
        (
            stack(layer()).with_final_norm(Some(false)),
            &["no tensor `encoder.norm.weight`", "ends without a normalization"],
        ),
        (stack(layer().with_attention_bias(false)), &["no tensor `encoder.layers.0.self_attn.in_proj_bias`"]),
        (stack(layer().with_feed_forward_bias(false)), &["no tensor `encoder.layers.0.linear1.bias`"]),
        (stack(layer().with_norm(norm)), &["no tensor `encoder.layers.0.norm1.bias`"]),
        (
            stack(TransformerLayerConfig::new(8, 2, 9)),
            &["`encoder.layers.0.linear1.weight`: expected the shape [9, 8], got [7, 8]"],
        ),
        (
            stack(TransformerLayerConfig::new(6, 2, 7)),
            &["`encoder.layers.0.self_attn.in_proj_weight`: expected the shape [18, 6], got [24, 8]"],
        ),
        (
            stack(layer().with_num_key_value_heads(Some(1))),
            &["`encoder.layers.0.self_attn.in_proj_weight`: expected the shape [16, 8], got [24, 8]"],
        ),
        (stack(layer().with_norm_order(NormOrder::Sandwich)), &["`NormOrder::Pre` or `Post`", "got `Sandwich`"]),
        (stack(layer().with_activation(FeedForwardActivation::GeGlu)), &["an activation without a gate"]),
    ];
    for (config, expected) in cases {
        let error = error_of(config, "encoder.", device);
        assert_error(STACKS, error, expected);
    }
}

#[test]
fn a_module_of_another_kind_is_an_error_that_names_a_tensor() {
    let device = &device::plain()[0];
    let layer = || TransformerLayerConfig::new(8, 2, 7);
    let encoder = TransformerEncoderConfig::new(layer(), 2);
    let of_decoder = error_of(encoder.clone(), "decoder.", device);
    let place = "has no place for it";
    let expected = ["no tensor `decoder.layers.0.multihead_attn.", place];
    assert_error(STACKS, of_decoder, &expected);
    let of_both = error_of(encoder, "", device);
    let weight = "a tensor `layers.0.self_attn.in_proj_weight`";
    assert_error(STACKS, of_both, &[weight, "`encoder.layers.0."]);

    let decoder = TransformerDecoderConfig::new(layer(), 2).init(device);
    let error = load_transformer_decoder(decoder, reference_path(STACKS), "encoder.").err();
    let expected = ["a tensor `encoder.layers.0.multihead_attn.in_proj_weight`"];
    assert_error(STACKS, error.map(|error| error.to_string()), &expected);

    let error = |file| {
        let layer = layer().init_encoder(device);
        let error = load_transformer_encoder_layer(layer, reference_path(file), "").err();
        error.map(|error| error.to_string())
    };
    let expected = ["no tensor `multihead_attn."];
    assert_error(DECODER_LAYER, error(DECODER_LAYER), &expected);
    let expected = ["a tensor `self_attn.in_proj_bias`"];
    assert_error(WITHOUT_BIAS, error(WITHOUT_BIAS), &expected);
    let layer = layer().init_decoder(device);
    let error = load_transformer_decoder_layer(layer, reference_path(ENCODER_LAYER), "").err();
    let error = error.map(|error| error.to_string());
    let expected = ["a tensor `multihead_attn.in_proj_weight`"];
    assert_error(ENCODER_LAYER, error, &expected);
}
