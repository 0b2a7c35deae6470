//! The arguments of a search.

use attention_seq2seq::model::LengthPenalty;
use attention_seq2seq::{Result, SearchConfig};
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
    /// The length penalty, for beams: outputs of n tokens, the end included, come by log p / n^A (average:A) or by
    /// log p / ((5 + n) / 6)^A (gnmt:A, Wu et al. 2016, section 7). For sentences gnmt:0.6 to gnmt:1 [default: none].
    #[arg(
        long,
        value_name = "none|average:A|gnmt:A",
        allow_negative_numbers = true
    )]
    length_penalty: Option<String>,
    /// The factor of the coverage penalty, for beams of recurrent models: above 0, outputs that leave source tokens
    /// unread come later, 0.2 in the paper (ibid.) [default: 0].
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    coverage_penalty: Option<f64>,
    /// The factor on the log-probability of a token that the output has already: above 1, tokens come again less often
    /// [default: 1].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    repetition_penalty: Option<f64>,
    /// The size of the n-grams that no output has twice; 0 for any [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    no_repeat_ngram_size: Option<usize>,
    /// The fewest tokens of an output [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min_length: Option<usize>,
    /// The text with which every output begins.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
}

impl SearchArgs {
    /// The largest number of outputs of a source, if the arguments alone determine it.
    pub(super) fn n_best(&self) -> Option<usize> {
        self.n_best.or(self.mass.is_none().then_some(1))
    }

    /// Whether a penalty is given that has no effect.
    pub(super) fn has_idle_penalty(&self) -> bool {
        let length = self.length_penalty().map_or(0.0, LengthPenalty::exponent);
        let penalties = [length, self.coverage_penalty.unwrap_or(0.0)];
        self.mass.is_some() && penalties.iter().any(|&penalty| penalty > 0.0)
    }

    fn length_penalty(&self) -> Result<LengthPenalty> {
        let penalty = self.length_penalty.as_deref().map(str::parse);
        Ok(penalty.transpose()?.unwrap_or_default())
    }

    /// The settings of the search; `None` for greedy search, unless its probabilities are needed.
    pub(super) fn config(&self, with_probabilities: bool) -> Result<Option<SearchConfig>> {
        let is_greedy = *self == Self::default();
        let length_penalty = self.length_penalty()?;
        Ok((with_probabilities || !is_greedy).then(|| {
            SearchConfig::new()
                .with_beam(self.beam)
                .with_n_best(self.n_best)
                .with_mass(self.mass)
                .with_length_penalty(length_penalty)
                .with_coverage_penalty(self.coverage_penalty.unwrap_or(0.0))
                .with_repetition_penalty(self.repetition_penalty.unwrap_or(1.0))
                .with_no_repeat_ngram_size(self.no_repeat_ngram_size.unwrap_or(0))
                .with_min_len(self.min_length.unwrap_or(0))
                .with_prefix(self.prefix.clone().unwrap_or_default())
        }))
    }
}
