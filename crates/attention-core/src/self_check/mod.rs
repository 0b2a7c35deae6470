//! Whether attention computes on a device what it should.

mod case;
mod operations;
mod recurrent;

use std::fmt;
use std::time::Duration;

use burn::tensor::Device;

use case::Case;
use operations::Measured;

/// The operations of attention on `device`, forward and backward in f32, against the same formulas in f64 on the CPU:
/// with padding, queries without a key, causal and dense masks, shared heads, one query, saturated hidden units, and
/// NaN in the padding; and recurrent layers, in either direction.
///
/// What a driver or a compiler of shaders gets wrong is found here, before a training run finds it. It takes some
/// seconds on a device that compiles its kernels first.
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
    let mut checks = Vec::new();
    for case in Case::all() {
        for (operation, check) in operations::ALL {
            checks.extend(both_passes(operation, case.name, check(&case, &device)));
        }
    }
    for case in recurrent::Case::all() {
        for (operation, cell) in recurrent::ALL {
            let measured = recurrent::check(cell, &case, &device);
            checks.extend(both_passes(operation, case.name, measured));
        }
    }
    SelfCheckReport { checks }
}

fn both_passes(
    operation: &'static str,
    case: &'static str,
    [forward, backward]: [Measured; 2],
) -> [SelfCheck; 2] {
    [
        (Direction::Forward, forward, FORWARD_TOLERANCE),
        (Direction::Backward, backward, BACKWARD_TOLERANCE),
    ]
    .map(|(direction, measured, tolerance)| SelfCheck {
        operation,
        case,
        direction,
        error: measured.error,
        tolerance,
        time: measured.time,
    })
}

/// What results may err by, of their largest element.
const FORWARD_TOLERANCE: f64 = 1e-5;
/// The same of gradients.
const BACKWARD_TOLERANCE: f64 = 5e-5;

/// What [`self_check`] found; it prints as a table.
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
    /// What it may be.
    pub tolerance: f64,
    /// Of one call and the reading of its results, after one that compiled what is needed.
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
