//! Layers and stacks compute what PyTorch's do, with the same parameters, and so do their gradients.

use attention_core::{DotProductScore, Mask};
use attention_tests::{
    Array, Outcome, TransformerCase, assert_close, device, near_reference, parameters,
    transformer_reference,
};
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    FeedForwardActivation, NormOrder, TransformerDecoder, TransformerDecoderConfig,
    TransformerEncoder, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::models::lens;

const SIZE: usize = 8;
const HEADS: usize = 2;
const HIDDEN: usize = 7;

/// The name of PyTorch's parameter for our `path`, which part of its rows is ours, and of how many parts.
fn ours(name: &str, path: &str) -> Option<(String, [usize; 2])> {
    // Ours begin with the place of a layer in a stack, and PyTorch's do.
    let (place, path) = match path.strip_prefix("layers.") {
        Some(rest) => {
            let (at, rest) = rest.split_once('.')?;
            (format!("layers.{at}."), rest)
        }
        None => (String::new(), path),
    };
    let (layer, kind) = path.rsplit_once('.')?;
    let is_decoder = name == "transformer_decoder";
    let last = if is_decoder { "norm3" } else { "norm2" };
    let kind = match kind {
        "gamma" => "weight",
        "beta" => "bias",
        kind => kind,
    };
    let within = |module: &str, ours: &str| {
        let mut inputs = ["query", "key", "value"].into_iter();
        match inputs.position(|of| of == ours) {
            Some(at) => (format!("{module}.in_proj_{kind}"), [at, 3]),
            None => (format!("{module}.out_proj.{kind}"), [0, 1]),
        }
    };
    let whole = |module: &str| (format!("{module}.{kind}"), [0, 1]);
    let parts: Vec<&str> = layer.split('.').filter(|of| !is_variant(of)).collect();
    let (theirs, part) = match parts[..] {
        ["attention", ours] => within("self_attn", ours),
        ["cross_attention", ours] => within("multihead_attn", ours),
        ["attention_residual", "norm"] => whole("norm1"),
        ["attention_residual", "output_norm"] => whole("norm1_after"),
        ["cross_attention_residual", "norm"] => whole("norm2"),
        ["feed_forward_residual", "norm"] => whole(last),
        ["feed_forward_residual", "output_norm"] => whole("norm2_after"),
        ["feed_forward", "gate"] => whole("gate"),
        ["feed_forward", "input"] => whole("linear1"),
        ["feed_forward", "output"] => whole("linear2"),
        ["norm"] => whole("norm"),
        _ => return None,
    };
    Some((format!("{place}{theirs}"), part))
}

/// Whether a part of a path names a variant of an enum.
fn is_variant(part: &str) -> bool {
    matches!(part, "Layer" | "Rms")
}

/// PyTorch's parameter (or its gradient) of our path and in our layout.
fn of_pytorch(file: &str, tensors: &Outcome, path: &str) -> Array {
    let (theirs, [at, parts]) =
        ours(file, path).unwrap_or_else(|| panic!("PyTorch has no parameter for {path}"));
    let whole = &tensors[&theirs];
    let mut shape = whole.shape.clone();
    shape[0] /= parts;
    let len = whole.data.len() / parts;
    let part = Array::new(&shape, whole.data[at * len..(at + 1) * len].to_vec());
    match part.shape.len() {
        2 => part.permute(&[1, 0]),
        _ => part,
    }
}

pub(crate) fn layer_config(case: &TransformerCase) -> TransformerLayerConfig {
    let config = TransformerLayerConfig::new(SIZE, HEADS, HIDDEN);
    let (order, config) = match case.order.as_str() {
        "pre" => (NormOrder::Pre, config),
        "post" => (NormOrder::Post, config),
        "sandwich" => {
            let config = config.with_norm(NormConfig::rms());
            let config = config.with_attention_bias(false);
            (NormOrder::Sandwich, config.with_feed_forward_bias(false))
        }
        other => panic!("no order {other}"),
    };
    let activation = match case.activation.as_str() {
        "relu" => FeedForwardActivation::Relu,
        "gelu" => FeedForwardActivation::Gelu,
        "geglu_tanh" => FeedForwardActivation::GeGluTanh,
        other => panic!("no activation {other}"),
    };
    config.with_norm_order(order).with_activation(activation)
}

pub(crate) fn encoder_config(case: &TransformerCase) -> TransformerEncoderConfig {
    TransformerEncoderConfig::new(layer_config(case), 2).with_final_norm(Some(true))
}

pub(crate) fn decoder_config(case: &TransformerCase) -> TransformerDecoderConfig {
    TransformerDecoderConfig::new(layer_config(case), 2).with_final_norm(Some(true))
}

pub(crate) fn memory_mask_of(case: &TransformerCase, device: &Device) -> Mask {
    match &case.memory_lens {
        Some(of) => Mask::valid_lens(lens(of, device)),
        None => Mask::none(),
    }
}

pub(crate) fn mask_of(case: &TransformerCase, device: &Device) -> Mask {
    let of_lens = |of: &Vec<i64>| Mask::valid_lens(lens(of, device));
    let padding = case.lens.as_ref().map_or(Mask::none(), of_lens);
    match case.causal {
        true => padding & Mask::causal(),
        false => padding,
    }
}

/// Runs a module with PyTorch's parameters in every type, and compares results and all gradients.
fn check<M: Module>(
    file: &str,
    case: &TransformerCase,
    module: M,
    device: &Device,
    forward: impl Fn(&M, [Tensor<3>; 2], &Mask) -> Tensor<3>,
) {
    let module = parameters::changed(module, |path, _| of_pytorch(file, &case.inputs, path));
    let memory = case.inputs.get("memory").unwrap_or(&case.inputs["rows"]);
    for dtype in device::dtypes(device) {
        let tolerance = near_reference(dtype, 5e-6);
        let what = format!("{file}: {}: {dtype:?}", case.name);
        let module = parameters::cast(module.clone(), dtype);
        let leaves = [&case.inputs["rows"], memory].map(|array| array.leaf::<3>(device, dtype));
        let output = forward(&module, leaves.clone(), &mask_of(case, device));
        let received = case.inputs["grad_output"].tensor(device, dtype);
        let gradients = (output.clone() * received).sum().backward();
        assert_close(&what, output, &case.outputs["output"], tolerance);
        for (name, leaf) in ["rows", "memory"].into_iter().zip(&leaves) {
            if let Some(expected) = case.gradients.get(name) {
                let gradient = parameters::gradient(leaf, Some(&gradients));
                assert_close(format!("{what}: {name}"), &gradient, expected, tolerance);
            }
        }
        let found = parameters::gradients(&module, Some(&gradients));
        let theirs = case.gradients.len() - 1 - usize::from(case.gradients.contains_key("memory"));
        assert!(found.len() >= theirs, "{what}: {} gradients", found.len());
        for (path, gradient) in &found {
            let expected = of_pytorch(file, &case.gradients, path);
            if path.ends_with("key.bias") {
                // It adds the same to all scores of a query: its gradient is a sum of what cancels.
                let summands = found[&path.replace("bias", "weight")].magnitude();
                let holds = gradient.magnitude() <= tolerance * summands;
                assert!(holds, "{what}: {path}");
            } else {
                assert_close(format!("{what}: {path}"), gradient, &expected, tolerance);
            }
        }
    }
}

#[test]
fn encoders_are_those_of_pytorch() {
    const FILE: &str = "transformer_encoder";
    device::each_training(|device| {
        for case in transformer_reference(FILE) {
            if case.name.starts_with("stack") {
                let stack: TransformerEncoder<DotProductScore> = encoder_config(&case).init(device);
                check(FILE, &case, stack, device, |stack, [rows, _], mask| {
                    stack.forward(rows, mask)
                });
            } else {
                let layer = layer_config(&case).init_encoder(device);
                check(FILE, &case, layer, device, |layer, [rows, _], mask| {
                    layer.forward(rows, mask)
                });
            }
        }
    });
}

#[test]
fn decoders_are_those_of_pytorch() {
    const FILE: &str = "transformer_decoder";
    device::each_training(|device| {
        for case in transformer_reference(FILE) {
            let of_memory = || memory_mask_of(&case, device);
            if case.name.starts_with("stack") {
                let stack: TransformerDecoder<DotProductScore> = decoder_config(&case).init(device);
                check(FILE, &case, stack, device, |stack, [rows, memory], mask| {
                    let memory = stack.prepare(memory, of_memory());
                    stack.forward(rows, mask, &memory)
                });
            } else {
                let layer = layer_config(&case).init_decoder(device);
                check(FILE, &case, layer, device, |layer, [rows, memory], mask| {
                    let memory = layer.prepare(memory, of_memory());
                    layer.forward(rows, mask, &memory)
                });
            }
        }
    });
}
