//! The devices that a bench runs on.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

/// A device and its name, which is Burn's.
pub type Named = (&'static str, Device);

/// The devices of the backends compiled in.
pub fn devices() -> Vec<Named> {
    vec![
        #[cfg(feature = "flex")]
        ("flex", Device::flex()),
        #[cfg(feature = "ndarray")]
        ("ndarray", Device::ndarray()),
        #[cfg(feature = "wgpu")]
        (
            "wgpu",
            Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        ),
        #[cfg(feature = "vulkan")]
        (
            "vulkan",
            Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        ),
        #[cfg(feature = "cuda")]
        ("cuda", Device::cuda(burn::tensor::DeviceIndex::Default)),
    ]
}

/// The device called `name`.
///
/// # Errors
/// If it is not compiled in: which ones are.
pub fn named(name: &str) -> Result<Named, String> {
    let compiled_in = devices();
    let names: Vec<&str> = compiled_in.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let found = compiled_in.into_iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| format!("compiled in: {names}; others are features of attention-benches"))
}

/// Whether tensors on `device` lie in the memory of this process. All others are GPU devices.
pub fn on_host(device: &Device) -> bool {
    !is_cube(device.as_dispatch())
}

fn is_cube(device: &DispatchDevice) -> bool {
    match device {
        #[cfg(feature = "gpu")]
        DispatchDevice::Cube(_) => true,
        DispatchDevice::Autodiff(device) => is_cube(device),
        #[allow(unreachable_patterns, reason = "of a build that has GPUs alone")]
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_compiled_in_is_answered_with_those_that_are() {
        let error = named("abacus").expect_err("no device");
        for (name, device) in devices() {
            assert!(error.contains(name), "{error}");
            assert_eq!(named(name).map(|(_, device)| device), Ok(device));
        }
    }

    #[test]
    fn training_moves_no_tensor() {
        for (name, device) in devices() {
            assert_eq!(on_host(&device), ["flex", "ndarray"].contains(&name));
            assert_eq!(on_host(&device), on_host(&device.clone().autodiff()));
        }
    }
}
