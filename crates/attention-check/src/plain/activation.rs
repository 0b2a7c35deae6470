//! The activations of a feed-forward network.

use std::f64::consts::PI;

use burn_fused_layers::Activation;

/// `f(input) factor`, of each element.
pub(crate) fn activate(function: Activation, [input, factor]: [&[f64]; 2]) -> Vec<f64> {
    let mut output = Vec::new();
    for n in 0..input.len() {
        output.push(value(function, input[n]) * factor[n]);
    }
    output
}

/// The gradients of input and factor.
pub(crate) fn activate_backward(
    function: Activation,
    [input, factor]: [&[f64]; 2],
    grad_output: &[f64],
) -> [Vec<f64>; 2] {
    let (mut grad_input, mut grad_factor) = (Vec::new(), Vec::new());
    for n in 0..input.len() {
        grad_input.push(grad_output[n] * factor[n] * derivative(function, input[n]));
        grad_factor.push(grad_output[n] * value(function, input[n]));
    }
    [grad_input, grad_factor]
}

/// `f(x)`
fn value(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Relu => x.max(0.0),
        Activation::Gelu => x * normal_distribution(x),
        Activation::GeluTanh => x * (1.0 + inner(x).tanh()) / 2.0,
        Activation::Silu => x * logistic(x),
    }
}

/// `f'(x)`
fn derivative(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Relu if x > 0.0 => 1.0,
        Activation::Relu => 0.0,
        Activation::Gelu => normal_distribution(x) + x * normal_density(x),
        Activation::GeluTanh => {
            let tanh = inner(x).tanh();
            let slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
            (1.0 + tanh) / 2.0 + x * (1.0 - tanh * tanh) * slope / 2.0
        }
        Activation::Silu => logistic(x) * (1.0 + x * (1.0 - logistic(x))),
    }
}

/// The hyperbolic tangent's argument in the approximation of GELU.
fn inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// By its series, `1/2 + density (x + x^3 / 3 + x^5 / (3 5) + ...)`: Marsaglia 2004, "Evaluating the Normal
/// Distribution".
fn normal_distribution(x: f64) -> f64 {
    let (mut sum, mut term) = (x, x);
    for n in 1..100 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + normal_density(x) * sum
}

fn normal_density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}
