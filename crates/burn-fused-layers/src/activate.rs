//! Activations, gated or not.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use cpu_kernels::Activation;

use crate::harness::checks::{Argument, assert_together};
use crate::harness::optional::OptionalTensor;
use crate::harness::wide::wide;
use crate::ops::{ActivateInputs, LayerOps};

/// The function of each element, by one pass over them on the CPU, forward and backward; the backward pass needs the
/// input alone. Half precision is computed in f32.
///
/// PyTorch: `F.relu`, `F.gelu`, `F.gelu(approximate="tanh")`, `F.silu`.
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

/// `f(gate) * input`, element by element: between the layers of a gated feed-forward network, such as SwiGLU with
/// [`Activation::Silu`] and GEGLU with [`Activation::Gelu`]. In one pass as [`activate`], without `f(gate)` in memory.
///
/// Shazeer 2020, "GLU Variants Improve Transformer", section 2. PyTorch: `F.silu(gate) * input`.
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
/// If shapes, types or devices of gate and input are not the same.
pub fn activate_gated<const D: usize>(
    gate: Tensor<D>,
    input: Tensor<D>,
    function: Activation,
) -> Tensor<D> {
    const NAME: &str = "activate_gated";
    let of_input = [Argument::floats("input", &input)];
    assert_together(NAME, Argument::floats("gate", &gate), of_input);
    let (expected, got) = (gate.dims(), input.dims());
    assert!(
        got == expected,
        "{NAME}: input expected {expected:?}, as the gate, got {got:?}"
    );
    apply(gate, Some(input), function)
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
