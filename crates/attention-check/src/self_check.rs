//! The checks of a device.

use burn::tensor::{DType, Device};

use crate::case::Sizes;
use crate::check::Check;
use crate::report::SelfCheckReport;
use crate::{attention, decoding, feed_forward, layers, own, recurrent, rotation};

/// Checks every operation of attention on `device`, forward and backward, against the formulas as plain loops in f64,
/// which share no code with it.
///
/// Scores, softmax, weighted sums and fused attention: with padding, queries without keys, causal and dense masks,
/// shared heads, a single query, prepared keys, saturated hidden units, NaN in the padding, biases and dropout; with a
/// user's own term and modification of scores. Linear layers, embeddings, cross-entropy, activations, normalizations,
/// recurrent layers in either direction, and rotated rows. All in f32, and each operation once in f16 and in bf16 if
/// the device has these types.
///
/// Errors of a driver or a shader compiler show here before a training run meets them. It takes some seconds, or more
/// on a device that compiles its kernels first. Matrix products that Burn runs in TF32, as it may on `cuda`, do not
/// pass as f32.
///
/// # Panics
/// If the device does not work.
pub fn self_check(device: &Device) -> SelfCheckReport {
    let device = device.clone().autodiff();
    let checks = checks(Sizes::CHECKED, &device);
    SelfCheckReport {
        checks: checks.iter().flat_map(|check| check.run(&device)).collect(),
    }
}

/// All checks of a device.
pub(crate) fn checks(sizes: Sizes, device: &Device) -> Vec<Check> {
    let mut checks = checks_in_f32(sizes);
    for (dtype, name) in [(DType::F16, "f16"), (DType::BF16, "bf16")] {
        if device.supports_dtype(dtype) {
            let of_type = first_of_each_operation(checks_in_f32(sizes));
            checks.extend(of_type.map(|check| check.in_type(dtype, name)));
        }
    }
    checks
}

pub(crate) fn checks_in_f32(sizes: Sizes) -> Vec<Check> {
    let mut checks = attention::checks(sizes);
    checks.extend(decoding::checks(sizes));
    checks.extend(own::checks(sizes));
    checks.extend(layers::checks(sizes));
    checks.extend(feed_forward::checks(sizes));
    checks.extend(recurrent::checks(sizes));
    checks.extend(rotation::checks(sizes));
    checks
}

fn first_of_each_operation(checks: Vec<Check>) -> impl Iterator<Item = Check> {
    let mut known = Vec::new();
    checks.into_iter().filter(move |check| {
        let is_new = !known.contains(&check.operation);
        known.push(check.operation);
        is_new
    })
}
