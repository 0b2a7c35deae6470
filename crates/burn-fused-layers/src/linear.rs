//! Linear layers.

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use crate::harness::checks::{Argument, assert_together};
use crate::harness::optional::OptionalTensor;
use crate::harness::parameter::dequantized;
use crate::harness::shared_weight::SharedWeight;
use crate::ops::{LayerOps, LinearInputs};
use crate::read_shared::read_weight;

/// `input weight + bias` along the last axis, with all rows in one product: as in [`Linear`](burn::nn::Linear). In
/// `f32` and `f64` on the CPU it uses this crate's products, forward and backward.
///
/// ```
/// use burn_fused_layers::linear;
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
    linear_of("input", (weight, bias), input)
}

/// [`linear`] of an input that messages call `name`.
///
/// # Panics
/// As [`linear`].
pub fn linear_of<const D: usize>(
    name: &str,
    (weight, bias): (Tensor<2>, Option<Tensor<1>>),
    input: Tensor<D>,
) -> Tensor<D> {
    let (weight, bias) = (dequantized(weight), bias.map(dequantized));
    apply((name, input), weight, bias, None)
}

/// [`linear`] with a weight that is not quantised and that several calls may share.
///
/// # Panics
/// If shapes, types or devices do not fit together.
pub(crate) fn apply<const D: usize>(
    (name, input): (&str, Tensor<D>),
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: Option<&SharedWeight>,
) -> Tensor<D> {
    assert_layer("linear", (name, &input), &weight, bias.as_ref());
    let mut dims = input.dims();
    let [from, to] = weight.dims();
    let dtype = input.dtype();
    let rows = dims[..D - 1].iter().product();
    dims[D - 1] = to;
    if rows * from * to == 0 {
        let zeros = Tensor::zeros(dims, (&input.device(), dtype));
        return match bias.filter(|_| rows * to > 0) {
            Some(bias) => zeros + bias.unsqueeze::<D>(),
            None => zeros,
        };
    }
    if !matches!(dtype, DType::F32 | DType::F64) {
        let input = input.reshape([rows, from]);
        return burn::tensor::module::linear(input, weight, bias).reshape(dims);
    }
    let inputs = LinearInputs {
        input: input.into_dispatch(),
        weight: read_weight(weight, shared).into_dispatch(),
        bias: OptionalTensor::of(bias),
        shared: shared.cloned(),
    };
    Tensor::from_dispatch(<Dispatch as LayerOps>::linear(inputs))
}

/// # Panics
/// If shapes, types or devices of a linear layer and its input do not fit together.
pub(crate) fn assert_layer<const D: usize>(
    operation: &str,
    (name, input): (&str, &Tensor<D>),
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
) {
    let of_bias = bias.map(|bias| Argument::floats("bias", bias));
    let others = [Argument::floats(name, input)].into_iter().chain(of_bias);
    assert_together(operation, Argument::floats("weight", weight), others);
    let dims = input.dims();
    let [from, to] = weight.dims();
    let got = dims[D - 1];
    assert!(
        got == from,
        "{operation}: last axis of the {name} expected {from}, got {got} in {dims:?}"
    );
    if let Some([got]) = bias.map(Tensor::dims) {
        assert!(got == to, "{operation}: bias expected [{to}], got [{got}]");
    }
}
