//! Linear layers.

use burn::backend::Dispatch;
use burn::nn::Linear;
use burn::tensor::{DType, Tensor};

use crate::checks::{Argument, assert_fits, assert_together};
use crate::ops::{AttentionOps, LinearInputs, OptionalTensor, SharedWeight};
use crate::parameter::{dequantized, of_linear};

/// `input weight + bias` along the last axis, all rows in one product: what [`Linear::forward`] computes. In `f32` and
/// `f64` on the CPU it is multiplied by this crate's products, forward and backward.
///
/// ```
/// use attention_core::linear;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let layer = LinearConfig::new(5, 7).init(&device);
/// let bias = layer.bias.as_ref().map(|bias| bias.val());
/// let output = linear(Tensor::<3>::ones([2, 4, 5], &device), layer.weight.val(), bias);
/// assert_eq!(output.dims(), [2, 4, 7]);
/// ```
///
/// # Shapes
/// - input `[.., in]`, weight `[in, out]`, bias `[out]`, result `[.., out]`
///
/// # Panics
/// If shapes, types or devices do not fit together.
pub fn linear<const D: usize>(
    input: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    let (weight, bias) = (dequantized(weight), bias.map(dequantized));
    assert_layer(&input, &weight, bias.as_ref());
    apply(input, weight, bias, None)
}

/// [`linear`], of a weight that several calls share. No parameter is quantised.
///
/// # Panics
/// If shapes, types or devices do not fit together.
pub(crate) fn linear_shared<const D: usize>(
    input: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: &SharedWeight,
) -> Tensor<D> {
    assert_layer(&input, &weight, bias.as_ref());
    apply(input, shared.read(weight), bias, Some(shared.clone()))
}

/// Applies `layer` to the last axis of `name`; see [`project_by`].
///
/// # Shapes
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size or type of `name` are not those of the layer.
pub(crate) fn project(name: &str, layer: &Linear, input: Tensor<4>) -> Tensor<4> {
    let (weight, bias) = of_linear(layer);
    project_by(name, weight, bias, input)
}

/// `input weight + bias` along the last axis of `name`; see [`linear`].
///
/// # Shapes
/// - weight `[in, out]`, bias `[out]`
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size, type or device of `name` are not those of the weight.
pub(crate) fn project_by(
    name: &str,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    input: Tensor<4>,
) -> Tensor<4> {
    assert_fits(name, &input, &weight);
    apply(input, weight, bias, None)
}

/// # Panics
/// If they are not on one device or not of one type.
fn assert_layer<const D: usize>(input: &Tensor<D>, weight: &Tensor<2>, bias: Option<&Tensor<1>>) {
    let bias = bias.map(|bias| Argument::floats("bias", bias));
    let parameters = [Argument::floats("weight", weight)].into_iter().chain(bias);
    assert_together("linear", Argument::floats("input", input), parameters);
}

fn apply<const D: usize>(
    input: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: Option<SharedWeight>,
) -> Tensor<D> {
    let mut dims = input.dims();
    let [from, to] = weight.dims();
    assert!(
        dims[D - 1] == from,
        "linear: last axis of the input expected {from}, got {dims:?}"
    );
    let options = (&input.device(), input.dtype());
    let rows = dims[..D - 1].iter().product();
    dims[D - 1] = to;
    if rows * to == 0 {
        return Tensor::zeros(dims, options);
    }
    if from == 0 {
        let zeros = Tensor::zeros(dims, options);
        return match bias {
            Some(bias) => zeros + bias.unsqueeze::<D>(),
            None => zeros,
        };
    }
    if let Some(bias) = &bias {
        assert!(
            bias.dims() == [to],
            "linear: bias expected [{to}], got {:?}",
            bias.dims()
        );
    }
    product(input.reshape([rows, from]), weight, bias, shared).reshape(dims)
}

/// `input weight + bias`, all rows in one product; in other types than `f32` and `f64` by Burn's own.
///
/// # Shapes
/// - input `[rows, in]`, weight `[in, out]`, bias `[out]`, result `[rows, out]`, none of these empty
fn product(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: Option<SharedWeight>,
) -> Tensor<2> {
    let dtype = input.dtype();
    let is_of_type = bias.as_ref().is_none_or(|bias| bias.dtype() == dtype);
    let has_product = matches!(dtype, DType::F32 | DType::F64);
    if !has_product || weight.dtype() != dtype || !is_of_type {
        return burn::tensor::module::linear(input, weight, bias);
    }
    let inputs = LinearInputs {
        input: input.into_dispatch(),
        weight: weight.into_dispatch(),
        bias: OptionalTensor::of(bias),
        shared,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::linear(inputs))
}
