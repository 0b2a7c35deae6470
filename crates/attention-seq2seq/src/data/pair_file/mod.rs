//! Files of pairs, in several formats.

mod columns;
mod dict;
mod file;
mod format;
mod jsonl;
mod line;
mod options;
mod sniff;
mod subwords;
mod tsv;

pub use columns::Columns;
pub use file::{PairFile, load_pairs};
pub use format::{JsonFields, PairFormat, Stress};
pub use options::PairFileOptions;

#[cfg(test)]
mod tests;
