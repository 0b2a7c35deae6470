//! The log of the libraries, on the standard error.

use ::log::{LevelFilter, Log, Metadata, Record};

/// Shows the logs of our own crates.
struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        metadata.level() <= ::log::max_level()
            && (target.starts_with("attention_")
                || target.starts_with("burn_fused_layers")
                || target.starts_with("cpu_kernels"))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str().to_lowercase();
            eprintln!("{level}: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Shows warnings, or the level that `RUST_LOG` names.
pub(super) fn start() {
    let asked = std::env::var("RUST_LOG").ok();
    let level = asked.and_then(|level| level.parse().ok());
    if ::log::set_logger(&Stderr).is_ok() {
        ::log::set_max_level(level.unwrap_or(LevelFilter::Warn));
    }
}
