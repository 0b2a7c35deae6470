//! The settings of an explanation.

use crate::translate::SearchConfig;

/// The extent of an [`Explanation`](super::Explanation).
#[derive(Clone, Debug)]
pub struct ExplainConfig {
    /// The search for outputs.
    pub search: SearchConfig,
    /// The target tokens with which every output begins, including that of greedy search; if empty, the tokens of the
    /// text [`SearchConfig::prefix`]. If `<eos>` is the last of them, nothing is left to search: the tokens are the
    /// output. A model whose data have a token `<eos>` refuses it there, as it could mean either.
    pub prefix: Vec<String>,
    /// The largest number of alternatives of a step.
    pub alternatives: usize,
    /// The largest number of source tokens for which a source gets an [`Occlusion`](super::Occlusion), which decodes
    /// each output once for each source token; 0 for no occlusion.
    pub occlusion_limit: usize,
    /// The largest number of attention weights, changes of an [`Occlusion`](super::Occlusion) and alternatives, for all
    /// outputs together; more are an error before any of them is computed. `None` for no limit.
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
