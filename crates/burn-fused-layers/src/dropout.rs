//! Dropout.

use burn::backend::Dispatch;
use burn::nn::Dropout;
use burn::tensor::{Device, Tensor};

use crate::ops::{DropoutFactorsInputs, LayerOps};

/// `layer.forward(input)`: in training, each element is set to 0 with the probability `p` of the layer, or divided by
/// `1 - p` (Srivastava et al. 2014, "Dropout").
///
/// On flex and ndarray the threads of the current rayon pool draw the mask together; Burn 0.22.1 draws it on one
/// thread. The backend's generator seeds the mask, which is independent of the number of threads. Factors are f32.
///
/// PyTorch equivalent: `torch.nn.functional.dropout`.
///
/// ```
/// use burn::nn::DropoutConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_fused_layers::dropout;
///
/// let layer = DropoutConfig::new(0.25).init();
/// let input = Tensor::<2>::ones([3, 5], &Device::flex().autodiff());
/// for element in dropout(&layer, input).into_data().iter::<f32>() {
///     assert!(element == 0.0 || element == 1.0 / 0.75);
/// }
/// ```
pub fn dropout<const D: usize>(layer: &Dropout, input: Tensor<D>) -> Tensor<D> {
    dropout_beside(layer, input, [])
}

/// [`dropout`] in a module whose other tensors, such as the weight that multiplies the result, are on `devices`: it
/// [`drops`] if any of them, or the input, is on a training device.
pub fn dropout_beside<const D: usize>(
    layer: &Dropout,
    input: Tensor<D>,
    devices: impl IntoIterator<Item = Device>,
) -> Tensor<D> {
    if drops(layer, devices.into_iter().chain([input.device()])) {
        drop_elements(input, layer.prob)
    } else {
        input
    }
}

/// Whether a layer drops anything when it works on tensors on `devices`: in training, if any of them is a training
/// device. A batch from a loader is not on a training device, but the weights are.
pub fn drops(layer: &Dropout, devices: impl IntoIterator<Item = Device>) -> bool {
    let mut devices = devices.into_iter();
    layer.prob > 0.0 && layer.training.is_enabled() && devices.any(|device| device.is_autodiff())
}

/// Each element is set to 0 with `probability`, in `[0, 1)`, or divided by `1 - probability`, on any device: the
/// [`dropout`] of a layer that [`drops`].
pub fn drop_elements<const D: usize>(input: Tensor<D>, probability: f64) -> Tensor<D> {
    if input.shape().num_elements() == 0 {
        return input;
    }
    let inputs = DropoutFactorsInputs {
        like: input.clone().into_dispatch(),
        probability,
    };
    input * Tensor::from_dispatch(<Dispatch as LayerOps>::dropout_factors(inputs))
}
