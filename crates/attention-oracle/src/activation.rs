//! The activations of a feed-forward network, each `x factor(x)`.

use std::f64::consts::{PI, SQRT_2};

use crate::real::sigmoid;

/// A function applied to each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x Phi(x)`, with the distribution function `Phi` of a normal variable: Hendrycks and Gimpel 2016, "Gaussian
    /// Error Linear Units".
    Gelu,
    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`
    GeluTanh,
    /// `x / (1 + e^-x)`
    Silu,
}

impl Activation {
    /// The factor of `x`, and its derivative.
    pub fn factor(self, x: f64) -> [f64; 2] {
        match self {
            Self::Relu => [if x > 0.0 { 1.0 } else { 0.0 }, 0.0],
            Self::Gelu => {
                let beyond = tail(x.abs());
                [if x < 0.0 { beyond } else { 1.0 - beyond }, density(x)]
            }
            Self::GeluTanh => {
                // (1 + tanh(y / 2)) / 2
                let scale = 4.0 / (SQRT_2 * PI.sqrt());
                let y = scale * (x + 0.044715 * x.powi(3));
                let slope = scale * (1.0 + 3.0 * 0.044715 * x * x);
                [sigmoid(y), sigmoid(y) * sigmoid(-y) * slope]
            }
            Self::Silu => [sigmoid(x), sigmoid(x) * sigmoid(-x)],
        }
    }

    /// `f(x)` and `f'(x)`.
    pub fn value(self, x: f64) -> [f64; 2] {
        let [factor, slope] = self.factor(x);
        [x * factor, factor + x * slope]
    }
}

/// `f(input) factor`, for each element.
pub fn activate(function: Activation, [input, factor]: [&[f64]; 2]) -> Vec<f64> {
    let mut output = Vec::new();
    for n in 0..input.len() {
        output.push(function.value(input[n])[0] * factor[n]);
    }
    output
}

/// The gradients of input and factor.
pub fn activate_backward(
    function: Activation,
    [input, factor]: [&[f64]; 2],
    grad_output: &[f64],
) -> [Vec<f64>; 2] {
    let (mut grad_input, mut grad_factor) = (Vec::new(), Vec::new());
    for n in 0..input.len() {
        let [value, derivative] = function.value(input[n]);
        grad_input.push(grad_output[n] * factor[n] * derivative);
        grad_factor.push(grad_output[n] * value);
    }
    [grad_input, grad_factor]
}

/// The tail of the normal distribution beyond `t`, at least 0: near 0 by the series of Marsaglia 2004 ("Evaluating the
/// Normal Distribution"), elsewhere by Laplace's continued fraction.
fn tail(t: f64) -> f64 {
    if t < 1.0 {
        let (mut sum, mut term) = (t, t);
        for n in 1..60 {
            term *= t * t / f64::from(2 * n + 1);
            sum += term;
        }
        return 0.5 - density(t) * sum;
    }
    let fraction = (1..400).rev().fold(t, |below, n| t + f64::from(n) / below);
    density(t) / fraction
}

fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}
