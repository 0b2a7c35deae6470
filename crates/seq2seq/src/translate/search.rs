//! The arguments of a search.

use attention_seq2seq::SearchConfig;
use clap::Args;

#[derive(Args, Default, PartialEq)]
pub(crate) struct SearchArgs {
    /// The number of hypotheses that a step keeps of each source (beam search) [default: --n-best; with --mass: 10].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    beam: Option<usize>,
    /// The most outputs of each source, the best first [default: 1; with --mass: --beam].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    n_best: Option<usize>,
    /// The best outputs that have this probability together, such as 0.85; at least one. For words that have several
    /// pronunciations. They come by their probability, whatever the penalties are.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    mass: Option<f64>,
    /// The exponent of the length penalty, for beams: 0 orders outputs by their probability, 0.6 to 1 favours longer
    /// ones, for whole sentences (Wu et al. 2016, section 7) [default: 0].
    #[arg(long, value_name = "A", allow_negative_numbers = true)]
    length_penalty: Option<f64>,
    /// The factor of the coverage penalty, for beams of recurrent models: above 0, outputs that leave source tokens
    /// unread come later, 0.2 in the paper (ibid.) [default: 0].
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    coverage_penalty: Option<f64>,
    /// The fewest tokens of an output [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min_length: Option<usize>,
    /// The text with which every output begins.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
}

impl SearchArgs {
    /// The most outputs of a source, where that is given by the arguments alone.
    pub(super) fn n_best(&self) -> Option<usize> {
        self.n_best.or(self.mass.is_none().then_some(1))
    }

    /// Whether a penalty is given that counts for nothing.
    pub(super) fn has_idle_penalty(&self) -> bool {
        let penalties = [self.length_penalty, self.coverage_penalty];
        self.mass.is_some() && penalties.into_iter().flatten().any(|penalty| penalty > 0.0)
    }

    /// The settings of the search; none for greedy search, unless its probabilities are needed.
    pub(super) fn config(&self, with_probabilities: bool) -> Option<SearchConfig> {
        let is_greedy = *self == Self::default();
        (with_probabilities || !is_greedy).then(|| {
            SearchConfig::new()
                .with_beam(self.beam)
                .with_n_best(self.n_best)
                .with_mass(self.mass)
                .with_length_penalty(self.length_penalty.unwrap_or(0.0))
                .with_coverage_penalty(self.coverage_penalty.unwrap_or(0.0))
                .with_min_len(self.min_length.unwrap_or(0))
                .with_prefix(self.prefix.clone().unwrap_or_default())
        })
    }
}
