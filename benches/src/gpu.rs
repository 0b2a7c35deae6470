//! A GPU: its name and its limits.

use attention_core::backend::{DeviceLimits, device_limits};
use burn::backend::DispatchDevice;
use burn::tensor::Device;
use burn_cubecl::CubeDevice;

/// A GPU, as Burn and as CubeCL know it.
pub struct Gpu {
    pub(crate) device: Device,
    pub(crate) cube: CubeDevice,
}

impl Gpu {
    /// `device`, if it is a GPU.
    pub fn new(device: &Device) -> Option<Self> {
        let device = device.clone().inner();
        let cube = match device.as_dispatch() {
            DispatchDevice::Cube(cube) => cube.clone(),
            #[allow(unreachable_patterns, reason = "of a build that has GPUs alone")]
            _ => return None,
        };
        Some(Self { device, cube })
    }

    /// The name that it has for itself.
    pub fn name(&self) -> String {
        let identity = self.device.identity();
        identity.map_or_else(|| "without a name".to_string(), |identity| identity.name)
    }

    /// The limits of the device.
    pub fn limits(&self) -> DeviceLimits {
        device_limits(&self.device).expect("a GPU has limits")
    }
}
