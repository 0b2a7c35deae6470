//! The result of a check, as a struct and as a table.

use std::fmt;
use std::time::Duration;

/// The result of [`self_check`](crate::self_check()); it prints as a table.
#[derive(Clone, Debug)]
pub struct SelfCheckReport {
    /// A line for each operation, case and direction.
    pub checks: Vec<SelfCheck>,
}

/// One operation in one case.
#[derive(Clone, Debug)]
pub struct SelfCheck {
    /// The name, such as `additive attention`.
    pub operation: &'static str,
    /// The name, such as `causal mask`.
    pub case: &'static str,
    /// Whether results or gradients are compared.
    pub direction: Direction,
    /// The largest error, relative to the tensor's largest element; NaN if an element that should be finite is not.
    pub error: f64,
    /// The largest accepted error.
    pub tolerance: f64,
    /// The time of one call and of reading its results, after a first call that compiled the kernels.
    pub time: Duration,
}

/// The pass of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The results.
    Forward,
    /// The gradients.
    Backward,
}

impl SelfCheck {
    /// Whether the error is within the tolerance.
    pub fn passed(&self) -> bool {
        // False for NaN.
        self.error <= self.tolerance
    }
}

impl SelfCheckReport {
    /// Whether all checks passed.
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
