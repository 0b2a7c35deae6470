//! Texts and tokens translated by a trained model.

mod align;
mod batches;
mod each_text;
mod ensemble;
pub mod explain;
mod greedy;
mod outputs;
mod score;
mod search;
mod texts;
mod translator;

pub use outputs::{Attended, Hypothesis, ScoredHypothesis, TokenScores};
pub use search::SearchConfig;
pub use translator::Translator;

#[cfg(test)]
mod tests;
