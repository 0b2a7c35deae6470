//! The composed definition, with a gradient of its own.
//!
//! Every function is `x c(x)`, where `c` rises from 0 to 1. Except on flex, Burn's gradient of GELU (0.22.1) is the
//! gradient of an approximation; the other functions, differentiated operation by operation, would store several
//! tensors.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use cpu_kernels::Activation;

use super::ActivateInputs;
use crate::harness::kernel::{Asked, Gradient, Kernel};

/// The magnitude at which `c` reaches its ends: `e^-80` vanishes beside 1, and `e^80` is still finite in f32. Elements
/// are clamped to it, so that none is multiplied by infinity.
const FAR: f64 = 80.0;

/// The definition in training, as a single node.
pub(crate) const fn kernel<B: Backend>()
-> Kernel<B, ActivateInputs<B>, FloatTensor<B>, ActivateInputs<B>, 2> {
    Kernel {
        infer: forward,
        train: |inputs, _| (forward(inputs.clone()), inputs),
        backward,
    }
}

/// `x c(x)`, times the factor.
pub(crate) fn forward<B: Backend>(inputs: ActivateInputs<B>) -> FloatTensor<B> {
    let result = activated::<B>(inputs.function, inputs.input);
    times::<B>(result, inputs.factor.into_option())
}

/// The gradients of input and factor.
fn backward<B: Backend>(
    inputs: ActivateInputs<B>,
    gradient: FloatTensor<B>,
    asked: Asked<2>,
) -> [Gradient<B>; 2] {
    let (input, function) = (inputs.input, inputs.function);
    let [of_input, of_factor] = asked.wanted;
    let of_factor = of_factor.then(|| {
        let result = activated::<B>(function, input.clone());
        Gradient::Whole(B::float_mul(gradient.clone(), result))
    });
    let of_input = of_input.then(|| {
        let near = B::float_clamp(input, (-FAR).into(), FAR.into());
        let gradient = times::<B>(gradient, inputs.factor.into_option());
        Gradient::Whole(B::float_mul(gradient, derivative::<B>(function, near)))
    });
    [of_input, of_factor].map(Option::unwrap_or_default)
}

fn times<B: Backend>(tensor: FloatTensor<B>, factor: Option<FloatTensor<B>>) -> FloatTensor<B> {
    match factor {
        Some(factor) => B::float_mul(tensor, factor),
        None => tensor,
    }
}

/// `x c(x)`
fn activated<B: Backend>(function: Activation, input: FloatTensor<B>) -> FloatTensor<B> {
    let lowest = match function {
        Activation::Relu => 0.0,
        _ => -FAR,
    };
    let from_below = B::float_clamp_min(input, lowest.into());
    let near = B::float_clamp_max(from_below.clone(), FAR.into());
    B::float_mul(from_below, rise::<B>(function, near))
}

/// `c(x)`
fn rise<B: Backend>(function: Activation, x: FloatTensor<B>) -> FloatTensor<B> {
    match function {
        Activation::Relu => {
            let settings = get_device_settings::<B>(&x.device());
            let dtype = x.dtype();
            let is_positive = B::float_greater_elem(x, 0.0.into(), settings.bool_dtype);
            B::bool_into_float(is_positive, dtype.into())
        }
        Activation::Gelu => {
            let erf = B::float_erf(B::float_mul_scalar(x, FRAC_1_SQRT_2.into()));
            B::float_mul_scalar(B::float_add_scalar(erf, 1.0.into()), 0.5.into())
        }
        Activation::GeluTanh => {
            let factor = cubic_factor::<B>(B::float_mul(x.clone(), x.clone()), 1.0);
            logistic::<B>(B::float_mul(x, factor))
        }
        Activation::Silu => logistic::<B>(x),
    }
}

/// `c(x) + x c'(x)`
fn derivative<B: Backend>(function: Activation, x: FloatTensor<B>) -> FloatTensor<B> {
    let rise = rise::<B>(function, x.clone());
    let slope = match function {
        // The slope of a step is 0; at NaN it is NaN.
        Activation::Relu => B::float_sub(x.clone(), x.clone()),
        Activation::Gelu => {
            let square = B::float_mul(x.clone(), x.clone());
            let power = B::float_exp(B::float_mul_scalar(square, (-0.5).into()));
            B::float_mul_scalar(power, (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2).into())
        }
        Activation::GeluTanh => {
            let factor = cubic_factor::<B>(B::float_mul(x.clone(), x.clone()), 3.0);
            B::float_mul(logistic_slope::<B>(rise.clone()), factor)
        }
        Activation::Silu => logistic_slope::<B>(rise.clone()),
    };
    B::float_add(rise, B::float_mul(x, slope))
}

/// `2 sqrt(2 / pi) (1 + times 0.044715 x^2)`, given `x^2`.
fn cubic_factor<B: Backend>(square: FloatTensor<B>, times: f64) -> FloatTensor<B> {
    const LINEAR: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let cubic = B::float_mul_scalar(square, (LINEAR * times * 0.044715).into());
    B::float_add_scalar(cubic, LINEAR.into())
}

/// `1 / (1 + e^-x)`
fn logistic<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let negative = B::float_neg(B::float_clamp(x, (-FAR).into(), FAR.into()));
    B::float_recip(B::float_add_scalar(B::float_exp(negative), 1.0.into()))
}

/// The derivative of the logistic function where its value is `y`: `y (1 - y)`.
fn logistic_slope<B: Backend>(y: FloatTensor<B>) -> FloatTensor<B> {
    let rest = B::float_add_scalar(B::float_neg(y.clone()), 1.0.into());
    B::float_mul(y, rest)
}
