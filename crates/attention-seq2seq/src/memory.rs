//! The memory of this machine, and what fits into it.

mod limits;

use std::path::Path;

use crate::error::{Error, Result};

/// Checks that `what` fits into the memory that this process can have, as far as the system tells: an allocation that
/// fails would end the program, and one that a control group does not allow would have it killed.
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

/// The bytes that can be had; `None` where the system does not tell.
fn free() -> Option<f64> {
    limits::free(Path::new("/"))
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
