//! What fits into this machine's memory.

use crate::error::{Error, Result};

/// Checks that `what` fits into the memory that the system has free, as far as it tells: an allocation that fails
/// would end the program.
///
/// # Errors
/// [`Error::Config`] if it does not.
pub(crate) fn check(what: &str, bytes: f64) -> Result<()> {
    match free() {
        Some(free) if bytes > free => {
            let expected = format!("at most the {} of memory that are free", binary(free));
            Err(Error::config(what, &expected, binary(bytes)))
        }
        _ => Ok(()),
    }
}

/// The bytes that can be had without swapping; `None` where the system does not tell.
fn free() -> Option<f64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024.0 * kibibytes)
}

fn binary(bytes: f64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    format!("{:.1} GiB", bytes / GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused_with_both_sizes() {
        assert!(check("nothing", 0.0).is_ok());
        if let Some(free) = free() {
            let error = check("the model", 4.0 * free).map_err(|error| error.to_string());
            let message = error.err().unwrap_or_default();
            assert!(
                message.starts_with("the model: expected at most the "),
                "{message}"
            );
            assert!(
                message.contains("GiB of memory that are free, found "),
                "{message}"
            );
        }
    }
}
