//! Devices by name.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, DeviceType, Tensor};

use crate::error::{Error, Result};

/// The devices that any build can have, by Burn's names.
const KNOWN: [&str; 8] = [
    "flex", "ndarray", "wgpu", "vulkan", "metal", "webgpu", "cuda", "rocm",
];

/// The devices that this build has, by Burn's names; the first is the default of the program.
///
/// ```
/// assert!(attention_seq2seq::compiled_in_devices().contains(&"flex"));
/// ```
pub fn compiled_in_devices() -> Vec<&'static str> {
    let built = [
        cfg!(feature = "flex"),
        cfg!(feature = "ndarray"),
        cfg!(feature = "wgpu"),
        cfg!(feature = "vulkan"),
        cfg!(feature = "metal"),
        cfg!(feature = "webgpu"),
        cfg!(feature = "cuda"),
        cfg!(feature = "rocm"),
    ];
    let known = KNOWN.into_iter().zip(built);
    known
        .filter(|(_, built)| *built)
        .map(|(name, _)| name)
        .collect()
}

/// Opens the device of this name and computes on it once, so that a device that does not work is an error here. With
/// the feature `remote`, `ws://HOST:PORT` is the device of a worker, which computes by its own kernels.
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
/// [`Error::UnknownDevice`] if there is no such device or this build lacks it, [`Error::DeviceUnavailable`] if it does
/// not work on this machine or is not there, [`Error::Config`] if it is not one device, or the address of a worker is
/// none.
pub fn open_device(name: &str) -> Result<Device> {
    check_single(name)?;
    #[cfg(feature = "remote")]
    if name.contains("://") {
        let device = crate::remote::open(&name.parse()?)?;
        return probe(move || device.clone()).map_err(|reason| Error::DeviceUnavailable {
            name: name.to_string(),
            reason,
        });
    }
    let make: fn() -> Device = match name {
        #[cfg(feature = "flex")]
        "flex" => Device::flex,
        #[cfg(feature = "ndarray")]
        "ndarray" => Device::ndarray,
        #[cfg(feature = "wgpu")]
        "wgpu" => || Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "vulkan")]
        "vulkan" => || Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "metal")]
        "metal" => || Device::metal(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "webgpu")]
        "webgpu" => || Device::webgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        "cuda" => || Device::cuda(burn::tensor::DeviceIndex::Default),
        #[cfg(feature = "rocm")]
        "rocm" => || Device::rocm(burn::tensor::DeviceIndex::Default),
        _ => {
            return Err(Error::UnknownDevice {
                name: name.to_string(),
                compiled_in: compiled_in_devices(),
                known: KNOWN.to_vec(),
            });
        }
    };
    probe(make).map_err(|reason| Error::DeviceUnavailable {
        name: name.to_string(),
        reason,
    })
}

/// Checks that a name is of one device, and says what is wrong with a list.
fn check_single(name: &str) -> Result<()> {
    let names: Vec<&str> = name.split(',').map(str::trim).collect();
    if names.len() < 2 {
        return Ok(());
    }
    let mut seen = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
        let found = format!("{twice:?} twice");
        return Err(Error::config("--device", "each device once", found));
    }
    let is_worker = |name: &&str| name.contains("://");
    let workers = names.iter().copied().filter(is_worker).count();
    if workers > 0 && workers < names.len() {
        let expected = "devices of one kind";
        let found = format!("workers beside devices of this machine: {name:?}");
        return Err(Error::config("--device", expected, found));
    }
    Err(Error::config("--device", "one device", names.len()))
}

/// Opens the first device that is compiled in.
///
/// # Errors
/// As [`open_device`].
pub(crate) fn open_default_device() -> Result<Device> {
    open_device(compiled_in_devices().first().copied().unwrap_or("none"))
}

/// The adapters that a GPU backend reaches and that work, by Burn's name of the backend; none on the CPU.
///
/// ```
/// assert!(attention_seq2seq::adapters("flex").is_empty());
/// ```
pub fn adapters(name: &str) -> Vec<Device> {
    let backends: Vec<(&str, DeviceType)> = vec![
        #[cfg(feature = "wgpu")]
        ("wgpu", DeviceType::Wgpu),
        #[cfg(feature = "vulkan")]
        ("vulkan", DeviceType::Vulkan),
        #[cfg(feature = "metal")]
        ("metal", DeviceType::Metal),
        #[cfg(feature = "webgpu")]
        ("webgpu", DeviceType::WebGpu),
        #[cfg(feature = "cuda")]
        ("cuda", DeviceType::Cuda),
        #[cfg(feature = "rocm")]
        ("rocm", DeviceType::Rocm),
    ];
    let found = backends.into_iter().find(|(known, _)| *known == name);
    let found = found.map(|(_, backend)| Device::enumerate(backend).into_iter());
    let works = |device: Device| probe(move || device.clone()).ok();
    found.into_iter().flatten().filter_map(works).collect()
}

/// Computes on the device once. A GPU backend without an adapter panics in its first operation: here that is an error.
fn probe(make: impl Fn() -> Device) -> std::result::Result<Device, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let device = make();
        match Tensor::<1>::ones([2], &device)
            .sum()
            .try_into_vec_as::<f32>()
        {
            Ok(values) if values == [2.0] => Ok(device),
            Ok(values) => Err(format!("1 + 1 gave {values:?} on it")),
            Err(error) => Err(error.to_string()),
        }
    }));
    std::panic::set_hook(hook);
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_string();
    match result {
        Ok(result) => result.map_err(first_line),
        Err(panic) => Err(match panic.downcast::<String>() {
            Ok(text) => first_line(*text),
            Err(panic) => match panic.downcast::<&str>() {
                Ok(text) => first_line(text.to_string()),
                Err(_) => "no adapter was found".to_string(),
            },
        }),
    }
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
    fn a_list_of_devices_says_what_is_wrong_with_it() {
        for (names, message) in [
            (
                "flex, flex",
                "--device: expected each device once, found \"flex\" twice",
            ),
            (
                "ws://a:1,flex",
                "--device: expected devices of one kind, found workers beside devices of this machine",
            ),
            (
                "ws://a:1,ws://b:1",
                "--device: expected one device, found 2",
            ),
        ] {
            let error = open_device(names).expect_err(names).to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
