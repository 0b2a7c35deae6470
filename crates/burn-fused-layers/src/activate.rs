//! Activations, with and without a gate.

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};
use cpu_kernels::Activation;

use crate::harness::checks::{Argument, assert_together};
use crate::harness::optional::OptionalTensor;
use crate::harness::parameter::dequantized;
use crate::harness::wide::wide;
use crate::linear::{assert_layer, linear};
use crate::ops::{ActivateInputs, ActivateLinearInputs, LayerOps};

/// Applies the function to each element, in a single pass on the CPU, forward and backward; the backward pass only
/// needs the input. Half precision is computed in f32.
///
/// PyTorch equivalent: `F.relu`, `F.gelu`, `F.gelu(approximate="tanh")`, `F.silu`.
///
/// ```
/// use burn_fused_layers::{Activation, activate};
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let input = Tensor::<2>::from_floats([[-1.0, 0.0, 2.0]], &device);
/// let output = activate(input, Activation::Relu);
/// assert_eq!(output.try_into_vec_as::<f32>().unwrap(), [0.0, 0.0, 2.0]);
/// ```
///
/// # Shapes
/// - input and result: any
pub fn activate<const D: usize>(input: Tensor<D>, function: Activation) -> Tensor<D> {
    apply(input, None, function)
}

/// `f(gate) * input`, element by element: between the layers of a gated feed-forward network, as in SwiGLU with
/// [`Activation::Silu`] and GEGLU with [`Activation::Gelu`]. A single pass like [`activate`], without `f(gate)` in
/// memory.
///
/// Shazeer 2020, "GLU Variants Improve Transformer", section 2. PyTorch equivalent: `F.silu(gate) * input`.
///
/// ```
/// use burn_fused_layers::{Activation, activate_gated};
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let gate = Tensor::<2>::from_floats([[-1.0, 0.5, 2.0]], &device);
/// let input = Tensor::<2>::from_floats([[3.0, 4.0, 5.0]], &device);
/// let output = activate_gated(gate, input, Activation::Relu);
/// assert_eq!(output.try_into_vec_as::<f32>().unwrap(), [0.0, 2.0, 10.0]);
/// ```
///
/// # Shapes
/// - gate, input and result: any, the same
///
/// # Panics
/// If shapes, types or devices of gate and input differ.
pub fn activate_gated<const D: usize>(
    gate: Tensor<D>,
    input: Tensor<D>,
    function: Activation,
) -> Tensor<D> {
    assert_gate("activate_gated", &gate, &input);
    apply(gate, Some(input), function)
}

/// `activate(input, function) weight + bias`. On the CPU, in f32 and f64, the backward pass recomputes the activation
/// instead of keeping it: in training, the hidden units of a feed-forward network are in memory once instead of twice.
///
/// ```
/// use burn_fused_layers::{Activation, activate_linear};
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let hidden = Tensor::<2>::from_floats([[-1.0, 0.5, 2.0]], &device);
/// let weight = Tensor::<2>::from_floats([[1.0], [2.0], [3.0]], &device);
/// let output = activate_linear(hidden, Activation::Relu, weight, None);
/// assert_eq!(output.try_into_vec_as::<f32>().unwrap(), [7.0]);
/// ```
///
/// # Shapes
/// - input `[.., in]`, weight `[in, out]`, bias `[out]`, result `[.., out]`
///
/// # Panics
/// If shapes, types or devices do not fit together.
pub fn activate_linear<const D: usize>(
    input: Tensor<D>,
    function: Activation,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    apply_linear("activate_linear", input, None, function, (weight, bias))
}

/// `activate_gated(gate, input, function) weight + bias`, like [`activate_linear`].
///
/// # Shapes
/// - gate and input `[.., in]`, weight `[in, out]`, bias `[out]`, result `[.., out]`
///
/// # Panics
/// If shapes, types or devices do not fit together.
pub fn activate_gated_linear<const D: usize>(
    gate: Tensor<D>,
    input: Tensor<D>,
    function: Activation,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    const NAME: &str = "activate_gated_linear";
    assert_gate(NAME, &gate, &input);
    apply_linear(NAME, gate, Some(input), function, (weight, bias))
}

/// # Panics
/// If shapes, types or devices of gate and input differ.
fn assert_gate<const D: usize>(operation: &str, gate: &Tensor<D>, input: &Tensor<D>) {
    let of_input = [Argument::floats("input", input)];
    assert_together(operation, Argument::floats("gate", gate), of_input);
    let (expected, got) = (gate.dims(), input.dims());
    assert!(
        got == expected,
        "{operation}: input expected {expected:?}, as the gate, got {got:?}"
    );
}

fn apply<const D: usize>(
    input: Tensor<D>,
    factor: Option<Tensor<D>>,
    function: Activation,
) -> Tensor<D> {
    if input.dims().contains(&0) {
        return input;
    }
    let dtype = input.dtype();
    let wide = wide(dtype);
    let inputs = ActivateInputs {
        input: input.cast(wide).into_dispatch(),
        factor: OptionalTensor::of(factor.map(|factor| factor.cast(wide))),
        function,
    };
    Tensor::<D>::from_dispatch(<Dispatch as LayerOps>::activate(inputs)).cast(dtype)
}

fn apply_linear<const D: usize>(
    operation: &str,
    input: Tensor<D>,
    factor: Option<Tensor<D>>,
    function: Activation,
    (weight, bias): (Tensor<2>, Option<Tensor<1>>),
) -> Tensor<D> {
    let (weight, bias) = (dequantized(weight), bias.map(dequantized));
    assert_layer(operation, ("input", &input), &weight, bias.as_ref());
    let [_, to] = weight.dims();
    let is_whole = matches!(input.dtype(), DType::F32 | DType::F64);
    if input.dims().contains(&0) || to == 0 || !is_whole {
        return linear(apply(input, factor, function), weight, bias);
    }
    let inputs = ActivateLinearInputs {
        input: input.into_dispatch(),
        factor: OptionalTensor::of(factor),
        weight: weight.into_dispatch(),
        bias: OptionalTensor::of(bias),
        function,
    };
    Tensor::from_dispatch(<Dispatch as LayerOps>::activate_linear(inputs))
}
