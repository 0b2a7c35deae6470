//! Times of options.

use std::time::Duration;

/// A time, of an option.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("expected 0.001 to 86400 seconds".to_string());
    }
    Ok(Duration::from_secs_f64(seconds))
}
