//! The settings of an explanation.

use crate::translate::SearchConfig;

/// How much an [`Explanation`](super::Explanation) has.
#[derive(Clone, Debug)]
pub struct ExplainConfig {
    /// The search for outputs.
    pub search: SearchConfig,
    /// The target tokens with which every output begins, greedy search's too; if empty, the tokens of the
    /// text [`SearchConfig::prefix`]. After `<eos>` as the last of them nothing is left to search: they are the output.
    /// A model whose data have a token `<eos>` refuses it there: it could be either.
    pub prefix: Vec<String>,
    /// The most alternatives of a step.
    pub alternatives: usize,
    /// The most source tokens of a source that has an [`Occlusion`](super::Occlusion), which decodes each output once
    /// for each of them; 0 for none at all.
    pub occlusion_limit: usize,
    /// The most attention weights, changes of an [`Occlusion`](super::Occlusion) and alternatives that all outputs
    /// have together; more are an error before any of them is computed. None for any number.
    pub most_numbers: Option<usize>,
}

impl ExplainConfig {
    /// Whether the outputs of a source have an occlusion.
    pub(super) fn occludes(&self, source: &[String]) -> bool {
        (2..=self.occlusion_limit).contains(&source.len())
    }
}

impl Default for ExplainConfig {
    /// Five outputs, five alternatives, an occlusion of up to 100 source tokens, and any number of weights.
    fn default() -> Self {
        Self {
            search: SearchConfig::new().with_n_best(Some(5)),
            prefix: Vec::new(),
            alternatives: 5,
            occlusion_limit: 100,
            most_numbers: None,
        }
    }
}
