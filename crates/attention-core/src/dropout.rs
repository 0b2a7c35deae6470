//! Whether dropout is in force.

use burn::nn::Dropout;
use burn::tensor::Device;

/// Whether dropout drops something of tensors on `device`: while training, on a training device.
pub(crate) fn drops(dropout: &Dropout, device: &Device) -> bool {
    dropout.prob > 0.0 && dropout.training.is_enabled() && device.is_autodiff()
}
