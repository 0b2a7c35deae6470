//! Linear layers that many calls apply.

use burn::nn::Linear;
use burn::tensor::{DType, Tensor};

use crate::harness::parameter::{dequantized, of_linear};
use crate::harness::shared_weight::SharedWeight;
use crate::harness::wide::widened_in_training;
use crate::linear::apply;

/// A linear layer for many calls in one pass, such as the steps of a decoder. On the CPU, in `f32` and `f64`, its
/// weight is packed once for all calls, and the gradient of the weight is one product over all calls. It keeps the
/// weight that the layer had when it was created. In training, half precision is multiplied in f32, so that the
/// gradients of all calls are summed in f32.
///
/// ```
/// use burn_fused_layers::PackedLinear;
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
    /// The type of inputs and results.
    dtype: DType,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shared: SharedWeight,
}

impl PackedLinear {
    /// A layer with `weight`, `[in, out]`, and `bias`, `[out]`.
    pub fn new(weight: Tensor<2>, bias: Option<Tensor<1>>) -> Self {
        let weight = dequantized(weight);
        Self {
            dtype: weight.dtype(),
            weight: widened_in_training(weight),
            bias: bias.map(|bias| widened_in_training(dequantized(bias))),
            shared: SharedWeight::default(),
        }
    }

    /// `input weight + bias` along the last axis, as in [`linear`](crate::linear).
    ///
    /// # Panics
    /// If shapes, types or devices do not fit together.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        let (dtype, own) = (input.dtype(), self.dtype);
        assert!(
            dtype == own,
            "linear: input expected of type {own:?}, as the weight, got {dtype:?}"
        );
        let input = ("input", input.cast(weight.dtype()));
        apply(input, weight, bias, Some(&self.shared)).cast(dtype)
    }
}

impl From<&Linear> for PackedLinear {
    fn from(layer: &Linear) -> Self {
        let (weight, bias) = of_linear(layer);
        Self::new(weight, bias)
    }
}
