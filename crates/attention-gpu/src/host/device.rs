//! Limits of a device.

use std::sync::Once;

use burn_backend::DType;
use burn_cubecl::{CubeDevice, cubecl};
use cubecl::client::Client;

use crate::tile::tiling::Tiling;

/// The number of bindings of the kernel with the most: fourteen tensors, and those that CubeCL adds.
const MAX_BINDINGS: u32 = 15;

/// The largest size of a tensor on a device, in bytes.
pub fn largest_buffer(device: &CubeDevice) -> usize {
    largest_buffer_of(&device.client())
}

pub(crate) fn largest_buffer_of(client: &Client) -> usize {
    let bytes = client.properties().memory.max_page_size;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Whether the kernels run on a device, with tensors of a type. If the device lacks something, it is logged once.
pub fn runs_on(device: &CubeDevice, dtype: DType) -> bool {
    let client = device.client();
    let hardware = &client.properties().hardware;
    let tiling = Tiling::new(usize::MAX);
    let required = [
        (
            "units in a cube",
            hardware.max_units_per_cube as usize,
            tiling.units(),
        ),
        (
            "bytes of shared memory",
            hardware.max_shared_memory_size,
            tiling.shared_memory(),
        ),
        (
            "bindings",
            hardware.max_bindings as usize,
            MAX_BINDINGS as usize,
        ),
    ];
    let missing = required.iter().find(|(_, has, needs)| has < needs);
    if let Some((what, has, needs)) = missing {
        static WARNING: Once = Once::new();
        WARNING.call_once(|| {
            log::warn!(
                "attention runs without kernels: they need {needs} {what}, {device:?} has {has}"
            );
        });
    }
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16) && missing.is_none()
}
