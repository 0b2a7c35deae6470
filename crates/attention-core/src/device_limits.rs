//! The limits of a GPU for attention.

use std::fmt;

#[cfg(feature = "cubecl-backend")]
use burn::tensor::DType;
use burn::tensor::Device;

#[cfg(feature = "cubecl-backend")]
use crate::ops::cube_device;

/// The limits of a kernel on a device that CubeCL reaches; see [`device_limits`]. `Display` prints them as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// The largest size of a tensor, in bytes.
    pub largest_buffer: u64,
    /// The bytes of all tensors together, if the device reports it.
    pub memory: Option<u64>,
    /// The shared memory of a cube, in bytes.
    pub shared_memory: usize,
    /// The largest number of units of a cube: threads of a block, invocations of a workgroup.
    pub units: u32,
    /// The largest number of tensors that a kernel may have.
    pub bindings: u32,
    /// Whether attention in f32 runs in kernels; otherwise it is composed of Burn's operations.
    pub has_kernels: bool,
    /// Whether attention in f16 runs in kernels.
    pub has_half_kernels: bool,
}

/// The limits of a GPU; `None` for a device in this process's memory.
///
/// ```
/// use attention_core::backend::device_limits;
/// use burn::prelude::Device;
///
/// assert_eq!(device_limits(&Device::flex()), None);
/// ```
///
/// # Panics
/// If the device does not work.
pub fn device_limits(device: &Device) -> Option<DeviceLimits> {
    #[cfg(feature = "cubecl-backend")]
    {
        let cube = cube_device(device)?;
        let client = cube.client();
        let properties = client.properties();
        let runs = |dtype| device.supports_dtype(dtype) && attention_gpu::runs_on(&cube, dtype);
        Some(DeviceLimits {
            largest_buffer: properties.memory.max_page_size,
            memory: properties.memory.max_memory(),
            shared_memory: properties.hardware.max_shared_memory_size,
            units: properties.hardware.max_units_per_cube,
            bindings: properties.hardware.max_bindings,
            has_kernels: runs(DType::F32),
            has_half_kernels: runs(DType::F16),
        })
    }
    #[cfg(not(feature = "cubecl-backend"))]
    {
        let _ = device;
        None
    }
}

impl fmt::Display for DeviceLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensors of up to {}", Bytes(self.largest_buffer))?;
        if let Some(memory) = self.memory {
            write!(f, ", {} in all", Bytes(memory))?;
        }
        let shared = Bytes(self.shared_memory as u64);
        let (units, bindings) = (self.units, self.bindings);
        write!(
            f,
            "; {shared} of shared memory, {units} units a cube, {bindings} bindings; "
        )?;
        f.write_str(match (self.has_kernels, self.has_half_kernels) {
            (true, true) => "attention runs in kernels, in f16 too",
            (true, false) => "attention runs in kernels",
            (false, _) => "attention runs without kernels",
        })
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(bits, _)| self.0 >> bits > 0) {
            Some((bits, name)) => {
                let number = self.0 as f64 / (1_u64 << bits) as f64;
                // No decimals for a whole number, as most limits are.
                let decimals = usize::from(number.fract() != 0.0);
                write!(f, "{number:.decimals$} {name}")
            }
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_print_as_a_line() {
        let limits = DeviceLimits {
            largest_buffer: 128 << 20,
            memory: Some(5 << 29),
            shared_memory: 49_152,
            units: 1024,
            bindings: 31,
            has_kernels: true,
            has_half_kernels: false,
        };
        assert_eq!(
            limits.to_string(),
            "tensors of up to 128 MiB, 2.5 GiB in all; 48 KiB of shared memory, 1024 units a cube, 31 bindings; \
             attention runs in kernels"
        );
        assert_eq!(Bytes(1000).to_string(), "1000 bytes");
    }
}
