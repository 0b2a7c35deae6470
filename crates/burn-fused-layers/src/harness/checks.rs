//! Checks of configurations and inputs, with messages that name them.

use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, Tensor};

use super::wide::wide;

/// Checks the sizes of a configuration.
///
/// # Panics
/// If a size is 0; `config` is the configuration that has it.
pub fn assert_positive(config: &str, sizes: &[(&str, usize)]) {
    for (name, size) in sizes {
        assert!(*size > 0, "{config}: {name} expected at least 1, got 0");
    }
}

/// # Panics
/// If a number of a configuration is infinite or NaN.
pub fn assert_finite(config: &str, name: &str, number: f64) {
    assert!(
        number.is_finite(),
        "{config}: {name} expected a finite number, got {number}"
    );
}

/// An argument of an operation, with its name for messages.
pub struct Argument<'a> {
    name: &'a str,
    device: Device,
    /// `None` if only the device counts.
    dtype: Option<DType>,
}

impl<'a> Argument<'a> {
    /// A tensor of floats, whose device and type must match those of other arguments.
    pub fn floats<const D: usize>(name: &'a str, tensor: &Tensor<D>) -> Self {
        Self::of(name, tensor.device(), tensor.dtype())
    }

    /// Floats of `dtype` on `device`, as [`floats`](Self::floats).
    pub fn of(name: &'a str, device: Device, dtype: DType) -> Self {
        Self {
            dtype: Some(dtype),
            ..Self::of_device(name, device)
        }
    }

    /// [`floats`](Self::floats), which also accepts f32 where `like` is half precision.
    pub fn floats_or_wide<const D: usize>(name: &'a str, tensor: &Tensor<D>, like: DType) -> Self {
        let own = tensor.dtype();
        let dtype = if own == wide(like) { like } else { own };
        Self::of(name, tensor.device(), dtype)
    }

    /// A tensor of any type, whose device must match that of other arguments: indices, flags.
    pub fn on_device<const D: usize, K: Basic>(name: &'a str, tensor: &Tensor<D, K>) -> Self {
        Self::of_device(name, tensor.device())
    }

    /// Anything on `device`, which must match that of other arguments.
    pub fn of_device(name: &'a str, device: Device) -> Self {
        Self {
            name,
            device,
            dtype: None,
        }
    }
}

/// The first check of an operation: its arguments are on one device (autodiff is not compared), and its floats have one
/// type. Burn would notice later, in a message that names neither.
///
/// # Panics
/// If they are not.
pub fn assert_together<'a>(
    operation: &str,
    first: Argument,
    others: impl IntoIterator<Item = Argument<'a>>,
) {
    let whose = first.name;
    for other in others {
        let (name, device) = (other.name, other.device);
        assert!(
            device == first.device,
            "{operation}: {name} expected on {:?}, as the {whose}, got {device:?}",
            first.device
        );
        if let (Some(expected), Some(got)) = (first.dtype, other.dtype) {
            assert!(
                got == expected,
                "{operation}: {name} expected of type {expected:?}, as the {whose}, got {got:?}"
            );
        }
    }
}
