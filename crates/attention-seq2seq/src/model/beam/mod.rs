//! Beam search.

mod candidates;
mod config;
mod hypotheses;
mod search;

pub use config::BeamSearchConfig;

/// An output of a beam search.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamOutput {
    /// The target tokens, without the end token: tokens of the data, no special ones.
    pub tokens: Vec<u32>,
    /// Whether the output has ended; if not, it was cut off.
    pub ended: bool,
    /// The sum of the log-probabilities of its tokens, and of the end if it has ended.
    pub log_probability: f64,
    /// The score by which outputs are ordered; without penalties, the log-probability.
    pub score: f64,
}

#[cfg(test)]
mod tests;
