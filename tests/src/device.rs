//! The devices that are compiled in.

use burn::tensor::{DType, Device};

use crate::Array;

/// Every compiled-in device, without autodiff.
pub fn plain() -> Vec<Device> {
    vec![
        #[cfg(feature = "flex")]
        Device::flex(),
        #[cfg(feature = "ndarray")]
        Device::ndarray(),
        #[cfg(feature = "wgpu")]
        Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        Device::cuda(0),
    ]
}

/// Runs a test on every device, without autodiff.
pub fn each(test: impl Fn(&Device)) {
    run(plain(), test);
}

/// Runs a test on every device, with autodiff.
pub fn each_training(test: impl Fn(&Device)) {
    run(plain().into_iter().map(Device::autodiff).collect(), test);
}

/// Runs a test on every device, first without and then with autodiff.
pub fn each_both_ways(test: impl Fn(&Device)) {
    each(&test);
    each_training(&test);
}

/// The float types in which tests of `device` run: f32 everywhere, f64 where there is f64.
pub fn dtypes(device: &Device) -> Vec<DType> {
    [DType::F32, DType::F64]
        .into_iter()
        .filter(|&dtype| computes(device, dtype))
        .collect()
}

/// Whether `device` computes in `dtype`. Some claim to and do not: Mesa's software Vulkan adds in f64, but
/// its `exp` and `tanh` return garbage.
pub fn computes(device: &Device, dtype: DType) -> bool {
    device.supports_dtype(dtype) && {
        let one = Array::full(&[1], 1.0).tensor::<1>(device, dtype);
        let e = Array::read(one.exp()).data[0];
        (e - std::f64::consts::E).abs() < 8.0 * epsilon(dtype)
    }
}

/// The rounding of `dtype`: what [`assert_close`](crate::assert_close) is given a multiple of.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}

fn run(devices: Vec<Device>, test: impl Fn(&Device)) {
    assert!(
        !devices.is_empty(),
        "no backend is compiled in: a test of nothing"
    );
    for device in devices {
        // Shown with the output of a failed test.
        eprintln!("on {device:?}");
        test(&device);
    }
}
