//! Linear layers.

use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::checks::{Argument, assert_fits, assert_together};
use crate::ops::{self, SharedWeight};
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

/// A linear layer for many calls in one pass, as by the steps of a decoder. On the CPU, in `f32` and `f64`, its weight
/// is packed once for all of them, and the weight's gradient is one product of all calls.
///
/// ```
/// use attention_core::PackedLinear;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let layer = LinearConfig::new(5, 5).init(&device);
/// let packed = PackedLinear::from(&layer);
/// let mut state = Tensor::<2>::ones([2, 5], &device);
/// for _ in 0..3 {
///     state = packed.forward(state);
/// }
/// assert_eq!(state.dims(), [2, 5]);
/// ```
#[derive(Clone, Debug)]
pub struct PackedLinear {
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: SharedWeight,
}

impl PackedLinear {
    /// A layer of `weight`, `[in, out]`, and `bias`, `[out]`.
    pub fn new(weight: Tensor<2>, bias: Option<Tensor<1>>) -> Self {
        Self {
            weight: dequantized(weight),
            bias: bias.map(dequantized),
            shared: SharedWeight::default(),
        }
    }

    /// `input weight + bias` along the last axis, as by [`linear`].
    ///
    /// # Panics
    /// If shapes, types or devices do not fit together.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        assert_layer(&input, &self.weight, self.bias.as_ref());
        let weight = self.shared.read(self.weight.clone());
        apply(input, weight, self.bias.clone(), Some(self.shared.clone()))
    }
}

impl From<&Linear> for PackedLinear {
    fn from(layer: &Linear) -> Self {
        let (weight, bias) = of_linear(layer);
        Self::new(weight, bias)
    }
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
    let output = ops::linear(input.reshape([rows, from]), weight, bias, shared);
    output.reshape(dims)
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
