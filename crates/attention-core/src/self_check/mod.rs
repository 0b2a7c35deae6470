//! Whether attention computes on a device what it should.

mod attention;
mod case;
mod check;
mod decoding;
mod dropout;
mod layers;
mod plain;
mod recurrent;
mod rotation;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use burn::tensor::{DType, Device};

use case::Sizes;
use check::Check;

/// Every operation of attention on `device`, forward and backward, against the formulas as plain loops in f64, which
/// share no code with it.
///
/// Scores, softmax, weighted sums and fused attention: with padding, queries without a key, causal and dense masks,
/// shared heads, one query, prepared keys, saturated hidden units, NaN in the padding, biases and dropout. Linear
/// layers, embeddings, cross-entropy, recurrent layers in either direction, and rows turned by angles. All in f32, and
/// each operation once in f16 and in bf16 where the device has these types.
///
/// Mistakes of a driver or a compiler of shaders show here before a training run meets them. It takes some seconds, and
/// more on a device that compiles its kernels first. Matrix products that Burn runs in TF32, as it may on `cuda`, do
/// not pass as f32.
///
/// ```
/// use attention_core::self_check;
/// use burn::prelude::Device;
///
/// let report = self_check(&Device::flex());
/// assert!(report.passed(), "{report}");
/// ```
///
/// # Panics
/// If the device does not work at all.
pub fn self_check(device: &Device) -> SelfCheckReport {
    let device = device.clone().autodiff();
    let checks = checks(Sizes::CHECKED, &device);
    SelfCheckReport {
        checks: checks.iter().flat_map(|check| check.run(&device)).collect(),
    }
}

/// All checks of a device.
fn checks(sizes: Sizes, device: &Device) -> Vec<Check> {
    let mut checks = checks_in_f32(sizes);
    for (dtype, name) in [(DType::F16, "f16"), (DType::BF16, "bf16")] {
        if device.supports_dtype(dtype) {
            let of_type = first_of_each_operation(checks_in_f32(sizes));
            checks.extend(of_type.map(|check| check.in_type(dtype, name)));
        }
    }
    checks
}

fn checks_in_f32(sizes: Sizes) -> Vec<Check> {
    let mut checks = attention::checks(sizes);
    checks.extend(decoding::checks(sizes));
    checks.extend(layers::checks(sizes));
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

/// The result of [`self_check`]; it prints as a table.
#[derive(Clone, Debug)]
pub struct SelfCheckReport {
    /// A line for each operation, case and direction.
    pub checks: Vec<SelfCheck>,
}

/// One operation in one case.
#[derive(Clone, Debug)]
pub struct SelfCheck {
    /// Such as `additive attention`.
    pub operation: &'static str,
    /// Such as `causal mask`.
    pub case: &'static str,
    /// Results or gradients.
    pub direction: Direction,
    /// The largest error, of the largest element of the same tensor; NaN if something is not finite that should be.
    pub error: f64,
    /// The largest error that passes.
    pub tolerance: f64,
    /// The time of one call and the reading of its results, after one that compiled what is needed.
    pub time: Duration,
}

/// Which pass of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Its results.
    Forward,
    /// Its gradients.
    Backward,
}

impl SelfCheck {
    /// Whether the error is as small as it should be.
    pub fn passed(&self) -> bool {
        // Not so with NaN.
        self.error <= self.tolerance
    }
}

impl SelfCheckReport {
    /// Whether everything did.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(SelfCheck::passed)
    }
}

impl fmt::Display for SelfCheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22} {:<22} {:<9} {:>8}  {:>8}  {:>10}",
            "operation", "case", "direction", "error", "allowed", "time"
        )?;
        for check in &self.checks {
            writeln!(
                f,
                "{:<22} {:<22} {:<9} {:>8.1e}  {:>8.0e}  {:>7.2} ms{}",
                check.operation,
                check.case,
                match check.direction {
                    Direction::Forward => "forward",
                    Direction::Backward => "backward",
                },
                check.error,
                check.tolerance,
                1e3 * check.time.as_secs_f64(),
                if check.passed() { "" } else { "  FAILED" }
            )?;
        }
        let failed = self.checks.iter().filter(|check| !check.passed()).count();
        match failed {
            0 => write!(f, "all {} checks passed", self.checks.len()),
            _ => write!(f, "{failed} of {} checks FAILED", self.checks.len()),
        }
    }
}
