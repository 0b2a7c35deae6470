//! Measures of the difference between outputs and references.

mod bleu;
mod bootstrap;
mod chrf;
mod edits;
mod ngrams;
mod token_errors;
mod tokenize_13a;

pub use bleu::{Bleu, d2l_bleu};
pub use bootstrap::{Bootstrap, Interval};
pub use chrf::ChrF;
pub use edits::{AlignedStep, Edit, align, aligned_steps};
pub(crate) use token_errors::Closest;
pub use token_errors::TokenErrors;

#[cfg(test)]
mod tests;
