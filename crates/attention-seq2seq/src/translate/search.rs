//! Translation by beam search.

use burn::config::Config;

use super::batches::{BATCH_TOKENS, check_sources, of_one_length};
use super::each_text::each_text_once;
use super::{ScoredHypothesis, Translator};
use crate::error::{self, Error};
use crate::model::{BeamOutput, BeamSearchConfig, LengthPenalty};
use crate::run::check_max_len;
use crate::stop::StopSignal;

/// The number of rows of a step, if there are enough hypotheses: products of more rows are no faster.
const ROWS: usize = 1024;

/// The largest number of log-probabilities of a step.
const MOST_PROBABILITIES: usize = 1 << 22;

/// The default beam if outputs are chosen by joint probability (`mass`).
const BEAM_OF_MASS: usize = 10;

/// Configuration of [`Translator::n_best`], a beam search. [`BeamSearchConfig`] says how outputs are found and ordered.
///
/// By default there are no penalties, so that outputs are ordered by their probability. Translations of whole sentences
/// benefit from a length penalty, `gnmt:0.6` to `gnmt:1`; pronunciations of words do not.
///
/// ```
/// use attention_seq2seq::SearchConfig;
///
/// let search = SearchConfig::new().with_beam(Some(5)).with_n_best(Some(3));
/// search.check(20)?;
/// let error = search.with_n_best(Some(7)).check(20).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the number of best outputs: expected 1 to 5, as many as the beam has hypotheses, found 7"
/// );
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct SearchConfig {
    /// The number of hypotheses that a step keeps for each source; by default `n_best`, and 10 with `mass`.
    #[config(default = "None")]
    pub beam: Option<usize>,
    /// The largest number of outputs of each source; by default 1, and with `mass` the width of the beam.
    #[config(default = "None")]
    pub n_best: Option<usize>,
    /// The joint probability of the outputs, above 0 and at most 1: as few of the best as reach it, at least one, and
    /// `n_best` if they do not reach it. They are chosen and ordered by their probability: penalties are then ignored.
    #[config(default = "None")]
    pub mass: Option<f64>,
    /// The length penalty, whose exponent is at least 0; with a penalty, the beam must be at least two.
    #[config(default = "LengthPenalty::None")]
    pub length_penalty: LengthPenalty,
    /// The factor of the coverage penalty, at least 0; above 0 it needs a recurrent model and a beam of two or more.
    #[config(default = 0.0)]
    pub coverage_penalty: f64,
    /// The factor on the log-probability of a token that the output already has, above 0; see [`BeamSearchConfig`].
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// The size of the n-grams that no output has twice; 0 for no limit.
    #[config(default = 0)]
    pub no_repeat_ngram_size: usize,
    /// The smallest number of tokens of an output.
    #[config(default = 0)]
    pub min_len: usize,
    /// The number of tokens after which an output is cut off; by default [`Translator::max_len`].
    #[config(default = "None")]
    pub max_len: Option<usize>,
    /// The text with which every output begins.
    #[config(default = "String::new()")]
    pub prefix: String,
}

impl SearchConfig {
    /// Checks the settings except the prefix, for outputs that are cut off at `max_len` tokens.
    ///
    /// # Errors
    /// [`Error::Config`] for the first setting out of its range.
    pub fn check(&self, max_len: usize) -> error::Result<()> {
        if let Some(mass) = self.mass
            && !(mass > 0.0 && mass <= 1.0)
        {
            let what = "the probability of the best outputs";
            return Err(Error::config(what, "above 0 and at most 1", mass));
        }
        check_max_len(self.max_len.unwrap_or(max_len))?;
        let search = BeamSearchConfig {
            length_penalty: self.length_penalty,
            coverage_penalty: self.coverage_penalty,
            ..self.beam_search(max_len, Vec::new())
        };
        search.check()?;
        let has_penalty = search.length_penalty.exponent() > 0.0 || search.coverage_penalty > 0.0;
        if has_penalty && self.width() == 1 {
            let what = "the length and coverage penalty";
            let expected = "a beam of two or more, whose outputs they order";
            return Err(Error::config(what, expected, "a beam of 1"));
        }
        Ok(())
    }

    /// The largest number of outputs of a source with these settings.
    pub fn most_outputs(&self) -> usize {
        self.n_best.unwrap_or(self.mass.map_or(1, |_| self.width()))
    }

    /// The number of hypotheses.
    fn width(&self) -> usize {
        let default = self.mass.map_or(1, |_| BEAM_OF_MASS);
        self.beam.or(self.n_best).unwrap_or(default)
    }

    /// The search, without penalties if `mass` is set: an output that a penalty favours may have almost no probability.
    pub(super) fn beam_search(&self, max_len: usize, prefix: Vec<u32>) -> BeamSearchConfig {
        let (length_penalty, coverage_penalty) = match self.mass {
            Some(_) => (LengthPenalty::None, 0.0),
            None => (self.length_penalty, self.coverage_penalty),
        };
        BeamSearchConfig::new(self.max_len.unwrap_or(max_len))
            .with_beam(self.width())
            .with_n_best(self.most_outputs())
            .with_length_penalty(length_penalty)
            .with_coverage_penalty(coverage_penalty)
            .with_repetition_penalty(self.repetition_penalty)
            .with_no_repeat_ngram_size(self.no_repeat_ngram_size)
            .with_min_len(self.min_len)
            .with_prefix(prefix)
    }

    /// The number of outputs that together reach the mass.
    fn count(&self, outputs: &[ScoredHypothesis]) -> usize {
        let Some(mass) = self.mass else {
            return outputs.len();
        };
        let mut sum = 0.0;
        let reached = outputs.iter().position(|output| {
            sum += output.log_probability.exp();
            sum >= mass
        });
        reached.map_or(outputs.len(), |last| last + 1)
    }
}

impl Translator {
    /// The best translations of each text, by beam search, the best first.
    ///
    /// The texts of the outputs differ. If subwords divide a text in several ways, the most likely one that the search
    /// finds is the output, with the probability of all that it finds.
    ///
    /// # Errors
    /// The error of [`source_tokens`](Self::source_tokens) for the first text that has one, or an error of
    /// [`n_best_tokens`](Self::n_best_tokens).
    pub fn n_best<T: AsRef<str>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        search: &SearchConfig,
    ) -> error::Result<Vec<Vec<ScoredHypothesis>>> {
        let sources = self.source_tokens_of(texts)?;
        let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
        self.n_best_tokens(&sources, search)
    }

    /// The best translations of each source, as for [`n_best`](Self::n_best). Tokens that are not in the vocabulary are
    /// read as [`Vocab::UNK`](crate::Vocab::UNK). On a CPU the outputs of a source do not depend on the other sources,
    /// bit for bit.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting of the search is out of its range, or a source has no tokens;
    /// [`Error::UnknownToken`] for a token of the prefix that is not in the vocabulary; [`Error::NoProbabilities`] if
    /// logits of the model are NaN or infinite.
    pub fn n_best_tokens(
        &self,
        sources: &[&[String]],
        search: &SearchConfig,
    ) -> error::Result<Vec<Vec<ScoredHypothesis>>> {
        self.n_best_tokens_until(sources, search, || false)
    }

    /// As [`n_best_tokens`](Self::n_best_tokens), unless `should_stop` returns that nobody waits for the translations
    /// any more: it is called before each step.
    ///
    /// # Errors
    /// The errors of [`n_best_tokens`](Self::n_best_tokens); [`Error::Stopped`] once `should_stop` returns true.
    pub fn n_best_tokens_until(
        &self,
        sources: &[&[String]],
        search: &SearchConfig,
        should_stop: impl Fn() -> bool,
    ) -> error::Result<Vec<Vec<ScoredHypothesis>>> {
        search.check(self.max_len)?;
        check_sources(sources)?;
        let prefix = self.target_tokens(&search.prefix)?;
        self.n_best_after(sources, search, &prefix, StopSignal::new(&should_stop))
    }

    /// The best translations of each source that begin with these tokens, which replace the text in the settings.
    /// Settings, sources and tokens were checked.
    pub(super) fn n_best_after(
        &self,
        sources: &[&[String]],
        search: &SearchConfig,
        prefix: &[String],
        stop: StopSignal<'_>,
    ) -> error::Result<Vec<Vec<ScoredHypothesis>>> {
        let mut beam_search = search.beam_search(self.max_len, self.vocabs.target.encode(prefix));
        if self.config.data.target_tokens().subwords.is_some() {
            // Several outputs may have the same text.
            beam_search.n_best = beam_search.beam;
        }
        let with_weights = beam_search.coverage_penalty > 0.0;
        let encoded = self.encoded(sources);
        let lens: Vec<usize> = encoded.iter().map(Vec::len).collect();
        let mut all = vec![Vec::new(); sources.len()];
        for indices in of_one_length(&lens, self.sources_of(&beam_search)) {
            stop.check()?;
            let sources: Vec<&[u32]> = indices.iter().map(|&index| &encoded[index][..]).collect();
            let mut decoding = self.decoding(&sources, beam_search.max_len, with_weights);
            let outputs = beam_search.search_until(&mut *decoding, stop.question())?;
            for (index, outputs) in indices.into_iter().zip(outputs) {
                let outputs = outputs.iter().map(|output| self.scored(output));
                let mut outputs = each_text_once(outputs, &beam_search);
                outputs.truncate(search.most_outputs());
                outputs.truncate(search.count(&outputs));
                all[index] = outputs;
            }
        }
        Ok(all)
    }

    fn sources_of(&self, search: &BeamSearchConfig) -> usize {
        let rows = ROWS.min(MOST_PROBABILITIES / self.vocabs.target.len());
        let rows = rows.min(BATCH_TOKENS / search.max_len.max(1));
        (rows / search.beam).clamp(1, self.most_sources)
    }

    fn scored(&self, output: &BeamOutput) -> ScoredHypothesis {
        let tokens = self.vocabs.target.decode(&output.tokens);
        ScoredHypothesis {
            text: self.target_text(&tokens),
            tokens,
            ended: output.ended,
            log_probability: output.log_probability,
            score: output.score,
        }
    }
}
