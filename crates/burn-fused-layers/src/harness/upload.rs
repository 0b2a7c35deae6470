//! Flags made on the host.

use burn::backend::tensor::{BoolTensor, Device};
use burn::backend::{Backend, get_device_settings};
use burn::tensor::{Shape, TensorData};

/// A tensor of flags, in the type that `device` uses for them.
pub fn upload<B: Backend>(
    flags: Vec<bool>,
    shape: impl Into<Shape>,
    device: &Device<B>,
) -> BoolTensor<B> {
    let dtype = get_device_settings::<B>(device).bool_dtype;
    let data = TensorData::new(flags, shape.into());
    B::bool_from_data(data.convert_dtype(dtype.into()), device)
}
