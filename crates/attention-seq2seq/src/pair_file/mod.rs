//! Files of pairs, in several formats.

mod columns;
mod dict;
mod file;
mod format;
mod jsonl;
mod line;
mod options;
mod subwords;
mod tsv;

pub use columns::Columns;
pub use file::{TsvFile, load_tsv};
pub use format::{JsonFields, PairFormat, Stress};
pub use options::TsvOptions;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
