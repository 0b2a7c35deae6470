//! Files of pairs, in several formats.

mod dict;
mod file;
mod format;
mod jsonl;
mod line;
mod options;
mod roles;
mod sniff;
mod subwords;
mod tsv;

pub use file::{PairFile, load_pairs};
pub use format::{PairFormat, Stress};
pub use options::PairFileOptions;
pub use roles::{Columns, JsonFields, Roles};

#[cfg(test)]
mod tests;
