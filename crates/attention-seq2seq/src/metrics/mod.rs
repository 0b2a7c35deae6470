//! How far outputs are from their references.

mod aligned;
mod bleu;
mod bootstrap;
mod chrf;
mod d2l_bleu;
mod edits;
mod ngrams;
mod token_errors;
mod tokenize_13a;

pub use aligned::{AlignedStep, aligned_steps};
pub use bleu::Bleu;
pub use bootstrap::{Bootstrap, Interval};
pub use chrf::ChrF;
pub use d2l_bleu::d2l_bleu;
pub use edits::{Edit, align};
pub(crate) use token_errors::Closest;
pub use token_errors::TokenErrors;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod references;
