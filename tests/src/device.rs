//! The devices that are compiled in.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::tensor::{DType, Device};

use crate::Array;
use crate::panics::message;

/// A device by its name, and what opens it.
type Known = (&'static str, fn() -> Device);

/// The devices that the tests run on, without autodiff: every compiled-in one, or those that the variable
/// `ATTENTION_TEST_DEVICES` names (`ndarray,wgpu`).
///
/// # Panics
/// If the variable names a device that is not compiled in.
pub fn plain() -> Vec<Device> {
    let compiled_in: Vec<Known> = vec![
        #[cfg(feature = "flex")]
        ("flex", Device::flex),
        #[cfg(feature = "ndarray")]
        ("ndarray", Device::ndarray),
        #[cfg(feature = "wgpu")]
        ("wgpu", || {
            Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)
        }),
        #[cfg(feature = "vulkan")]
        ("vulkan", || {
            Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)
        }),
        #[cfg(feature = "cuda")]
        ("cuda", || Device::cuda(0)),
    ];
    let Ok(chosen) = std::env::var("ATTENTION_TEST_DEVICES") else {
        return compiled_in.into_iter().map(|(_, open)| open()).collect();
    };
    let choose = |name: &str| {
        let found = compiled_in.iter().find(|(known, _)| *known == name);
        let known: Vec<&str> = compiled_in.iter().map(|(known, _)| *known).collect();
        found.map(|(_, open)| open()).unwrap_or_else(|| {
            panic!("ATTENTION_TEST_DEVICES: expected some of {known:?}, got {name:?}")
        })
    };
    chosen.split(',').map(choose).collect()
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
    let types = [DType::F32, DType::F64].into_iter();
    types.filter(|&dtype| computes(device, dtype)).collect()
}

/// The float types of half precision in which tests of `device` run.
pub fn half_types(device: &Device) -> impl Iterator<Item = DType> {
    let types = [DType::F16, DType::BF16].into_iter();
    types.filter(|&dtype| computes(device, dtype))
}

/// All float types in which tests of `device` run.
pub fn all_types(device: &Device) -> impl Iterator<Item = DType> {
    let types = [DType::F64, DType::F32].into_iter();
    let types = types.filter(|&dtype| computes(device, dtype));
    types.chain(half_types(device))
}

/// Runs a test in f32, and in f64 where there is f64.
pub fn in_each_type(test: impl Fn((&Device, DType))) -> impl Fn(&Device) {
    move |device| {
        dtypes(device)
            .into_iter()
            .for_each(|dtype| test((device, dtype)))
    }
}

/// Runs a test in the types of half precision.
pub fn in_half_types(test: impl Fn((&Device, DType))) -> impl Fn(&Device) {
    move |device| half_types(device).for_each(|dtype| test((device, dtype)))
}

/// Runs a test in all float types.
pub fn in_all_types(test: impl Fn((&Device, DType))) -> impl Fn(&Device) {
    move |device| all_types(device).for_each(|dtype| test((device, dtype)))
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
    let holds = !devices.is_empty();
    assert!(holds, "no backend is compiled in: a test of nothing");
    for device in devices {
        // Shown with the output of a failed test.
        eprintln!("on {device:?}");
        let test = || {
            test(&device);
            // Work still to be done may read files that the test removes; and a failed upload would be told to a later
            // test, whose thread has the same queue.
            device.sync().expect("a device finishes its work");
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(test)) {
            // A panic in a thread of the device's own is printed among the output of the test that started the thread,
            // and raised here without a word.
            eprintln!("{}", message(&*payload).unwrap_or("an unknown panic"));
            resume_unwind(payload);
        }
    }
}
