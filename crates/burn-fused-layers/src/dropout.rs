//! Dropout.

use burn::backend::Dispatch;
use burn::nn::Dropout;
use burn::tensor::{Device, Tensor};

use crate::ops::{DropoutFactorsInputs, LayerOps};

/// `layer.forward(input)`: while training each element is 0 with the probability of the layer, or divided by that of
/// the others (Srivastava et al. 2014, "Dropout").
///
/// On flex and ndarray the threads of the current rayon pool draw the mask together; Burn 0.22.1 draws it on one
/// thread. The backend's generator seeds the mask, which does not depend on the number of threads. Factors are f32.
///
/// PyTorch: `torch.nn.functional.dropout`.
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
    if !drops(layer, &input.device()) || input.shape().num_elements() == 0 {
        return input;
    }
    let inputs = DropoutFactorsInputs {
        like: input.clone().into_dispatch(),
        probability: layer.prob,
    };
    input * Tensor::from_dispatch(<Dispatch as LayerOps>::dropout_factors(inputs))
}

/// Whether a layer drops something of tensors on `device`: while training, on a training device.
pub fn drops(layer: &Dropout, device: &Device) -> bool {
    layer.prob > 0.0 && layer.training.is_enabled() && device.is_autodiff()
}
