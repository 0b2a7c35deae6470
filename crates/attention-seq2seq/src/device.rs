//! Devices by name.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[allow(unused_imports, reason = "of a GPU's backends")]
use burn::tensor::{Device, DeviceIndex, DeviceKind, DeviceType, Tensor};

use crate::error::{Error, Result};

/// The devices that a build may have, by Burn's names.
pub const KNOWN: [&str; 8] = [
    "flex", "ndarray", "wgpu", "vulkan", "metal", "webgpu", "cuda", "rocm",
];

/// A backend of this build.
struct Backend {
    /// The name in Burn.
    name: &'static str,
    /// Its default device.
    open: fn() -> Device,
    /// For a GPU, the device type of the adapters it reaches.
    adapters: Option<DeviceType>,
}

/// The backends of this build, in the order of [`KNOWN`].
#[rustfmt::skip] // a line each
const BACKENDS: &[Backend] = &[
    #[cfg(feature = "flex")]
    Backend { name: "flex", open: Device::flex, adapters: None },
    #[cfg(feature = "ndarray")]
    Backend { name: "ndarray", open: Device::ndarray, adapters: None },
    #[cfg(feature = "wgpu")]
    Backend { name: "wgpu", open: || Device::wgpu(DeviceKind::DefaultDevice), adapters: Some(DeviceType::Wgpu) },
    #[cfg(feature = "vulkan")]
    Backend { name: "vulkan", open: || Device::vulkan(DeviceKind::DefaultDevice), adapters: Some(DeviceType::Vulkan) },
    #[cfg(feature = "metal")]
    Backend { name: "metal", open: || Device::metal(DeviceKind::DefaultDevice), adapters: Some(DeviceType::Metal) },
    #[cfg(feature = "webgpu")]
    Backend { name: "webgpu", open: || Device::webgpu(DeviceKind::DefaultDevice), adapters: Some(DeviceType::WebGpu) },
    #[cfg(feature = "cuda")]
    Backend { name: "cuda", open: || Device::cuda(DeviceIndex::Default), adapters: Some(DeviceType::Cuda) },
    #[cfg(feature = "rocm")]
    Backend { name: "rocm", open: || Device::rocm(DeviceIndex::Default), adapters: Some(DeviceType::Rocm) },
];

fn backend(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}

/// The devices of this build, by Burn's names; the first is the default of the program.
///
/// ```
/// assert!(attention_seq2seq::device::compiled_in_devices().contains(&"flex"));
/// ```
pub fn compiled_in_devices() -> Vec<&'static str> {
    BACKENDS.iter().map(|backend| backend.name).collect()
}

/// Opens the device of this name and computes on it once, so that a device that does not work is an error. `NAME:N` is
/// the N-th of the backend's [`adapters`], from 0.
///
/// ```
/// use attention_seq2seq::open_device;
///
/// let training_device = open_device("flex")?.autodiff();
/// let error = open_device("tpu").unwrap_err().to_string();
/// assert!(error.starts_with("unknown device \"tpu\""));
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
///
/// # Errors
/// [`Error::UnknownName`] if there is no such device, [`Error::DeviceUnavailable`] if this build does not include it,
/// or it does not work on this machine or is absent, [`Error::Config`] if the name is not of a single device, or the
/// backend has no adapter with that number.
pub fn open_device(name: &str) -> Result<Device> {
    if name.contains(',') {
        let found = format!("{name:?}");
        return Err(Error::config("the device", "one device", found));
    }
    if let Some((of, number)) = name.split_once(':')
        && KNOWN.contains(&of)
    {
        let backend = backend(of).ok_or_else(|| not_compiled_in(of))?;
        return open_adapter(backend.name, number);
    }
    let backend = backend(name).ok_or_else(|| not_compiled_in(name))?;
    probe(backend.open).map_err(|reason| Error::DeviceUnavailable {
        name: name.to_string(),
        reason,
    })
}

/// The error for a device that this build does not include, or for an unknown name.
fn not_compiled_in(name: &str) -> Error {
    let (name, here) = (name.to_string(), compiled_in_devices().join(", "));
    if KNOWN.contains(&name.as_str()) {
        let reason = format!(
            "it is not part of this build, which has: {here}; build with the feature that adds it"
        );
        return Error::DeviceUnavailable { name, reason };
    }
    let known = KNOWN.join(", ");
    Error::UnknownName {
        what: "device",
        name,
        hint: format!("this build has: {here} (any build can have: {known})"),
    }
}

fn open_adapter(backend: &str, number: &str) -> Result<Device> {
    let all = adapters(backend);
    let count = all.len();
    let parsed = number.parse().ok();
    let found = parsed.and_then(|number: usize| all.into_iter().nth(number));
    found.ok_or_else(|| {
        let expected = match count {
            0 => format!("{backend} without a number, as it has no adapters"),
            _ => format!("{backend}:0 to {backend}:{}", count - 1),
        };
        Error::config("the device", expected, format!("{backend}:{number}"))
    })
}

/// Computes on the device once. A GPU backend without an adapter panics in its first operation; here that becomes an
/// error, and nothing is printed, whichever thread panics.
fn probe(make: impl Fn() -> Device) -> std::result::Result<Device, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let device = make();
        let sum = Tensor::<1>::ones([2], &device).sum();
        (device, sum.try_into_vec_as::<f32>())
    }));
    std::panic::set_hook(hook);
    let fault = match result {
        Ok((device, Ok(values))) if values == [2.0] => return Ok(device),
        Ok((_, Ok(values))) => format!("1 + 1 gave {values:?} on it"),
        Ok((_, Err(error))) => error.to_string(),
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic
                .downcast::<&str>()
                .map_or("no adapter was found".to_string(), |text| text.to_string()),
        },
    };
    Err(fault.lines().next().unwrap_or_default().to_string())
}

/// Opens the first device that is compiled in.
pub(crate) fn open_default_device() -> Result<Device> {
    open_device(compiled_in_devices().first().copied().unwrap_or("none"))
}

/// The working adapters that a GPU backend reaches, by Burn's name of the backend; empty for the CPU.
///
/// ```
/// assert!(attention_seq2seq::device::adapters("flex").is_empty());
/// ```
pub fn adapters(name: &str) -> Vec<Device> {
    let adapters = backend(name).and_then(|backend| backend.adapters.clone());
    let found = adapters.map(|kind| Device::enumerate(kind).into_iter());
    let works = |device: Device| probe(move || device.clone()).ok();
    found.into_iter().flatten().filter_map(works).collect()
}

/// The device of the unit tests: the program's default.
#[cfg(test)]
pub(crate) fn test_device() -> Device {
    open_device(compiled_in_devices()[0]).expect("the first device of a build works")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_devices_is_refused() {
        for names in ["flex,flex", "cuda:0,cuda:1", "wgpu:0, flex"] {
            let error = open_device(names).expect_err(names).to_string();
            let expected = format!("the device: expected one device, found {names:?}");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_device_left_out_reads_differently_from_a_device_unheard_of() {
        let here = compiled_in_devices().join(", ");
        let mut known = KNOWN.iter();
        let left_out = known.find(|name| !compiled_in_devices().contains(name));
        let absent = format!(
            "cannot be used here: it is not part of this build, which has: {here}; build with the feature"
        );
        let unknown = format!(
            "unknown device \"tpu\"; this build has: {here} (any build can have: flex, ndarray, wgpu,"
        );
        for (name, expected) in [(left_out.copied(), absent), (Some("tpu"), unknown)] {
            let error = name.map(|name| open_device(name).expect_err(name).to_string());
            let is_said = error.is_none_or(|error| error.contains(&expected));
            assert!(is_said, "{expected}");
        }
    }

    #[test]
    fn an_adapter_has_a_number_of_its_backend() {
        for name in ["flex:0", "flex:x"] {
            let error = open_device(name).expect_err(name).to_string();
            let expected = "the device: expected flex without a number, as it has no adapters";
            assert_eq!(error, format!("{expected}, found {name}"));
        }
        if !compiled_in_devices().contains(&"cuda") {
            let error = open_device("cuda:0").expect_err("not in this build");
            assert!(error.to_string().contains("\"cuda\" "), "{error}");
        }
        let error = open_device("tpu:0").expect_err("no such backend");
        let error = error.to_string();
        assert!(error.starts_with("unknown device \"tpu:0\""), "{error}");
    }

    #[cfg(feature = "wgpu")]
    #[test]
    fn an_adapter_is_opened_by_its_number() {
        let count = adapters("wgpu").len();
        for number in 0..count {
            open_device(&format!("wgpu:{number}")).expect("an adapter that works");
        }
        let error = open_device(&format!("wgpu:{count}")).expect_err("one too many");
        let expected = match count {
            0 => "wgpu without a number".to_string(),
            _ => format!("wgpu:0 to wgpu:{}", count - 1),
        };
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
