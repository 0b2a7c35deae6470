//! Requests.

use attention_seq2seq::explain::ExplainConfig;
use attention_seq2seq::{SearchConfig, UnknownTokens};
use serde::Deserialize;

/// The body of `POST /v1/translate`, in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) texts: Vec<String>,
    #[serde(default)]
    pub(super) search: Search,
    #[serde(default)]
    pub(super) unknown: UnknownTokens,
}

/// The settings of a search, by the names of `seq2seq translate`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Search {
    beam: Option<usize>,
    n_best: Option<usize>,
    mass: Option<f64>,
    length_penalty: f64,
    coverage_penalty: f64,
    min_length: usize,
    max_length: Option<usize>,
    prefix: String,
}

impl Search {
    /// The most hypotheses of a source: the time of a step grows with them.
    const MOST_BEAMS: usize = 64;

    /// The search that is asked for; or why it is not made, for a model whose outputs have so many tokens at most.
    pub(super) fn config(&self, max_len: usize) -> Result<SearchConfig, String> {
        check_most(&[
            ("beam", self.beam, Self::MOST_BEAMS),
            ("n_best", self.n_best, Self::MOST_BEAMS),
            ("min_length", Some(self.min_length), max_len),
            ("max_length", self.max_length, max_len),
        ])?;
        let search = SearchConfig::new()
            .with_beam(self.beam)
            .with_n_best(self.n_best)
            .with_mass(self.mass)
            .with_length_penalty(self.length_penalty)
            .with_coverage_penalty(self.coverage_penalty)
            .with_min_len(self.min_length)
            .with_max_len(self.max_length)
            .with_prefix(self.prefix.clone());
        match search.check(max_len) {
            Ok(()) => Ok(search),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The body of `POST /v1/explain`, in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainRequest {
    pub(super) source: String,
    /// The target tokens with which the outputs begin, `<eos>` last if they are the output.
    #[serde(default)]
    prefix: Vec<String>,
    n_best: Option<usize>,
    beam: Option<usize>,
    #[serde(default)]
    pub(super) unknown: UnknownTokens,
}

impl ExplainRequest {
    /// The most outputs: each is decoded once for every source token that is dropped.
    const MOST_OUTPUTS: usize = 10;

    /// The most weights, changes and alternatives of an answer: some 5 MB, which a browser draws in a moment.
    const MOST_NUMBERS: usize = 1_000_000;

    /// The settings that are asked for; or why they are not used.
    pub(super) fn config(&self) -> Result<ExplainConfig, String> {
        check_most(&[
            ("n_best", self.n_best, Self::MOST_OUTPUTS),
            ("beam", self.beam, Search::MOST_BEAMS),
        ])?;
        let mut config = ExplainConfig {
            prefix: self.prefix.clone(),
            most_numbers: Some(Self::MOST_NUMBERS),
            ..ExplainConfig::default()
        };
        config.search.beam = self.beam;
        if self.n_best.is_some() {
            config.search.n_best = self.n_best;
        }
        Ok(config)
    }
}

/// Checks that no number is above its limit.
fn check_most(numbers: &[(&str, Option<usize>, usize)]) -> Result<(), String> {
    for &(name, found, most) in numbers {
        if let Some(found) = found.filter(|&found| found > most) {
            return Err(format!("{name}: expected at most {most}, found {found}"));
        }
    }
    Ok(())
}
