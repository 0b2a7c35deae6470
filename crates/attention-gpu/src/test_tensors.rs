//! Tensors for the unit tests.

use burn_backend::{DType, Shape};
use burn_cubecl::cubecl::{Device, prelude::*, wgpu::WgpuDevice};
use burn_cubecl::tensor::CubeTensor;

/// Sines, starting at a phase.
pub(crate) fn tensor(shape: impl Into<Shape>, phase: f32) -> CubeTensor {
    let device = Device::Wgpu(WgpuDevice::default());
    let client = device.client();
    let shape = shape.into();
    let elements: Vec<f32> = (0..shape.num_elements())
        .map(|n| (n as f32 + phase).sin())
        .collect();
    let buffer = client.create_from_slice(f32::as_bytes(&elements));
    CubeTensor::new_contiguous(client, device, shape, buffer, DType::F32)
}

pub(crate) fn elements(tensor: CubeTensor) -> Vec<f32> {
    let bytes = tensor.client.clone().read_one_unchecked(tensor.handle);
    f32::from_bytes(&bytes).to_vec()
}
