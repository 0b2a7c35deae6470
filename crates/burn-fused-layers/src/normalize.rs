//! Normalizations of rows.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::harness::checks::{Argument, assert_together};
use crate::harness::optional::OptionalTensor;
use crate::harness::parameter::dequantized;
use crate::harness::wide::wide;
use crate::ops::{LayerOps, NormalizeInputs};

/// Layer normalization along the last axis: `(x - mean) / sqrt(variance + epsilon) * gain + bias`, as in
/// [`LayerNorm`](burn::nn::LayerNorm). On the CPU it is one pass over the rows, and one backward, which needs the input
/// and two numbers per row. Half precision is computed in f32; with gains in half precision the input may be f32.
///
/// Ba et al. 2016, "Layer Normalization", section 3. PyTorch: `F.layer_norm(input, [size], gain, bias, epsilon)`.
///
/// ```
/// use burn_fused_layers::layer_norm;
/// use burn::tensor::{Device, Tensor, TensorData, Tolerance};
///
/// let device = Device::flex();
/// let input = Tensor::<2>::from_floats([[1.0, 3.0], [7.0, 5.0]], &device);
/// let (gain, bias) = (Tensor::<1>::ones([2], &device), Tensor::from_floats([0.0, 10.0], &device));
/// let output = layer_norm(input, gain, Some(bias), 1e-5);
/// let expected = TensorData::from([[-1.0_f32, 11.0], [1.0, 9.0]]);
/// output.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
/// ```
///
/// # Shapes
/// - input and result `[.., size]`, gain and bias `[size]`; the result has the type of the gain
///
/// # Panics
/// If shapes, types or devices do not fit together, or epsilon is negative or NaN.
pub fn layer_norm<const D: usize>(
    input: Tensor<D>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    apply("layer_norm", input, gain, bias, epsilon, true)
}

/// Normalization by the root mean square along the last axis: `x / sqrt(mean(x^2) + epsilon) * gain`, as in
/// [`RmsNorm`](burn::nn::RmsNorm), in a single pass, like [`layer_norm`].
///
/// Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", section 4. PyTorch: `F.rms_norm(input, [size], gain,
/// epsilon)`.
///
/// ```
/// use burn_fused_layers::rms_norm;
/// use burn::tensor::{Device, Tensor, TensorData, Tolerance};
///
/// let device = Device::flex();
/// // The mean square is 25.
/// let input = Tensor::<2>::from_floats([[1.0, 7.0]], &device);
/// let output = rms_norm(input, Tensor::ones([2], &device), 1e-6);
/// let expected = TensorData::from([[0.2_f32, 1.4]]);
/// output.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
/// ```
///
/// # Shapes
/// - input and result `[.., size]`, gain `[size]`
///
/// # Panics
/// As [`layer_norm`].
pub fn rms_norm<const D: usize>(input: Tensor<D>, gain: Tensor<1>, epsilon: f64) -> Tensor<D> {
    apply("rms_norm", input, gain, None, epsilon, false)
}

fn apply<const D: usize>(
    name: &str,
    input: Tensor<D>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
    epsilon: f64,
    is_centered: bool,
) -> Tensor<D> {
    let (gain, bias) = (dequantized(gain), bias.map(dequantized));
    let of_bias = bias.as_ref().map(|bias| Argument::floats("bias", bias));
    let parameters = [Argument::floats("gain", &gain)].into_iter().chain(of_bias);
    let of_input = Argument::floats_or_wide("input", &input, gain.dtype());
    assert_together(name, of_input, parameters);
    let (dims, [size]) = (input.dims(), gain.dims());
    assert!(
        dims[D - 1] == size,
        "{name}: last axis of the input expected {size}, as the gain, got {dims:?}"
    );
    if let Some([got]) = bias.as_ref().map(Tensor::dims) {
        assert!(
            got == size,
            "{name}: bias expected [{size}], as the gain, got [{got}]"
        );
    }
    assert!(
        epsilon.is_finite() && epsilon >= 0.0,
        "{name}: epsilon expected a number from 0 on, got {epsilon}"
    );
    let dtype = gain.dtype();
    if dims.contains(&0) {
        return input.cast(dtype);
    }
    let wide = wide(dtype);
    let inputs = NormalizeInputs {
        input: input.cast(wide).into_dispatch(),
        gain: gain.cast(wide).into_dispatch(),
        bias: OptionalTensor::of(bias.map(|bias| bias.cast(wide))),
        epsilon,
        is_centered,
    };
    Tensor::<D>::from_dispatch(<Dispatch as LayerOps>::normalize(inputs)).cast(dtype)
}
