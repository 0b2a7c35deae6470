//! Activations, and normalizations of rows: the operations around the products of a feed-forward network.

use attention_oracle::Normalization;
use burn::tensor::Tensor;
use burn_fused_layers::{Activation, activate, activate_gated, layer_norm, rms_norm};

use crate::case::Sizes;
use crate::check::{Check, Input, Outcome, draw};

const EPSILON: f64 = 1e-5;

/// The checks, with as many rows as queries.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let [input, factor] = [31, 32].map(|seed| Input::drawn(seed, shape(sizes), 2.0));
    let gated = || [input.clone(), factor.clone()];
    let alone = || [input.clone()];
    let [rows, gain, bias] = norm_inputs(sizes);
    let without_bias = || [rows.clone(), gain.clone()];
    let with_bias = [rows.clone(), gain.clone(), bias];
    vec![
        activation("GELU, gated", gated(), sizes, Activation::Gelu),
        activation("GELU", alone(), sizes, Activation::Gelu),
        activation("GELU by tanh", alone(), sizes, Activation::GeluTanh),
        activation("SiLU, gated", gated(), sizes, Activation::Silu),
        activation("ReLU", alone(), sizes, Activation::Relu),
        norm("mean and variance", with_bias, sizes, true),
        norm("without bias", without_bias(), sizes, true),
        norm("root mean square", without_bias(), sizes, false),
    ]
}

fn shape(sizes: Sizes) -> [usize; 4] {
    [sizes.batch, sizes.heads, sizes.queries, sizes.size]
}

/// An activation of the input, with an optional factor.
fn activation<const N: usize>(
    case: &'static str,
    inputs: [Input; N],
    sizes: Sizes,
    function: Activation,
) -> Check {
    let shape = shape(sizes);
    Check::new(
        ["activation", case],
        inputs,
        draw(33, shape, 1.0),
        move |inputs: [&[f64]; N], given| {
            let ones = vec![1.0; inputs[0].len()];
            let inputs = [inputs[0], inputs.get(1).copied().unwrap_or(&ones)];
            let oracle = oracle(function);
            let gradients = attention_oracle::activate_backward(oracle, inputs, given.grad_output);
            let output = attention_oracle::activate(oracle, inputs);
            Outcome::new(output, gradients.into_iter().take(N))
        },
        move |inputs: [Tensor<4>; N]| match inputs.get(1) {
            Some(factor) => activate_gated(inputs[0].clone(), factor.clone(), function),
            None => activate(inputs[0].clone(), function),
        },
    )
}

fn oracle(function: Activation) -> attention_oracle::Activation {
    match function {
        Activation::Relu => attention_oracle::Activation::Relu,
        Activation::Gelu => attention_oracle::Activation::Gelu,
        Activation::GeluTanh => attention_oracle::Activation::GeluTanh,
        Activation::Silu => attention_oracle::Activation::Silu,
    }
}

/// Rows, gain and bias.
fn norm_inputs(sizes: Sizes) -> [Input; 3] {
    let vector = [1, 1, 1, sizes.size];
    [
        Input::drawn(34, shape(sizes), 2.0),
        Input::drawn(35, vector, 1.0),
        Input::drawn(36, vector, 1.0),
    ]
}

/// A normalization of rows with a gain and an optional bias.
fn norm<const N: usize>(
    case: &'static str,
    inputs: [Input; N],
    sizes: Sizes,
    is_centered: bool,
) -> Check {
    let size = sizes.size;
    Check::new(
        ["normalization", case],
        inputs,
        draw(37, shape(sizes), 1.0),
        move |inputs: [&[f64]; N], given| {
            let normalization = Normalization {
                rows: inputs[0],
                gain: inputs[1],
                bias: inputs.get(2).copied(),
                epsilon: EPSILON,
                is_centered,
            };
            let gradients = normalization.backward(given.grad_output);
            Outcome::new(normalization.forward(), gradients.into_iter().take(N))
        },
        move |inputs: [Tensor<4>; N]| {
            let (rows, gain) = (inputs[0].clone(), inputs[1].clone().reshape([size]));
            let bias = inputs.get(2).map(|bias| bias.clone().reshape([size]));
            if is_centered {
                layer_norm(rows, gain, bias, EPSILON)
            } else {
                rms_norm(rows, gain, EPSILON)
            }
        },
    )
}
