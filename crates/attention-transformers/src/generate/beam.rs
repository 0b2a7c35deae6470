//! Beam search.

use std::collections::BTreeSet;

use burn::config::Config;
use burn::tensor::{Int, Tensor};
use burn_fused_layers::harness::checks::{assert_finite, assert_positive};

use super::search::{
    BeamOutput, BeamSearchConfig, EarlyStopping, LengthPenalty, Rules, Search, TextDecoding,
    log_softmax,
};
use super::{CausalModel, check_min_tokens, check_prompts, check_repetition};

/// The state of several texts, from which a search selects. A clone is independent.
pub trait SelectTexts: Clone {
    /// Keeps the texts `indices`, in that order; texts may be left out, or come several times.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    fn select(&mut self, indices: Tensor<1, Int>);

    /// [`select`](Self::select), where each place receives a text of the same prompt as before, so that a source that
    /// was read for a prompt need not be copied.
    fn select_of_same_prompts(&mut self, indices: Tensor<1, Int>) {
        self.select(indices);
    }
}

/// Configuration of a beam search, which keeps the `beams` most likely beginnings of each text in every step.
///
/// An ended text has the score `log p / n^A` by [`LengthPenalty::Average`], where `log p` is the sum of the
/// log-probabilities of its `n` tokens. The search for a text ends once `beams` of its candidates have ended, and none
/// of them is to be replaced according to [`EarlyStopping`]. A step examines `beams * max(2, 1 + stop_tokens)`
/// extensions, so that `beams` of them continue however many end.
///
/// Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.2. With the same settings it
/// finds the same as `generate(num_beams=beams)` of Hugging Face's `transformers` 5.24.
///
/// ```
/// use attention_transformers::{
///     BeamConfig, LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
/// };
/// use burn::prelude::*;
///
/// let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(16, 4, 21), 2);
/// let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(31, 16), stack);
/// let model = config.init(&Device::flex());
/// let config = BeamConfig::new(4, 10).with_stop_tokens(vec![2]).with_excluded_tokens(vec![0]);
/// let texts = config.generate(&model, model.cache(), &[vec![3, 1, 4], vec![1, 5]]);
/// assert!(texts[1][0].score >= texts[1][1].score);
/// ```
#[derive(Config, Debug)]
pub struct BeamConfig {
    /// The number of beginnings that a step keeps for each text.
    pub beams: usize,
    /// The number of tokens after which a text ends, without its prompt.
    pub max_tokens: usize,
    /// The smallest number of tokens of a text, including its stop token. (`min_new_tokens` of `transformers` is one
    /// less, because it does not count the stop token.)
    #[config(default = 0)]
    pub min_tokens: usize,
    /// The tokens that end a text.
    #[config(default = "Vec::new()")]
    pub stop_tokens: Vec<u32>,
    /// The tokens that no text may have, such as padding.
    #[config(default = "Vec::new()")]
    pub excluded_tokens: Vec<u32>,
    /// Whether probabilities, after all changes by the other settings, are over the remaining tokens only; otherwise
    /// excluded tokens keep their probability.
    #[config(default = false)]
    pub renormalize: bool,
    /// The token, with probability 1, that ends a text of `max_tokens`.
    #[config(default = "None")]
    pub last_token: Option<u32>,
    /// The divisor of a score, by the number of tokens; by default the score is the mean log-probability.
    #[config(default = "LengthPenalty::Average(1.0)")]
    pub length_penalty: LengthPenalty,
    /// When the search for a text ends.
    #[config(default = "EarlyStopping::Likely")]
    pub early_stopping: EarlyStopping,
    /// The factor on the log-probability, after the softmax, of a token that the prompt or the text already has. (The
    /// penalty of [`GenerateConfig`](crate::GenerateConfig) is on logits, as in `transformers`.)
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// The size of the n-grams that a text and its prompt may not have twice; 0 for no limit.
    #[config(default = 0)]
    pub no_repeat_ngram_size: usize,
}

impl BeamConfig {
    /// The texts that follow each of `prompts`, whose lengths may differ, the best first and at most `beams` of each;
    /// `state` is an empty one, or one that has read earlier tokens of the same texts. A text ends at the last position
    /// of the model, as with `max_tokens`, and includes the stop token that ended it.
    ///
    /// # Panics
    /// If there are no prompts, a prompt is empty, `beams` or `max_tokens` is 0, the exponent of `length_penalty` is
    /// not finite, `repetition_penalty` is not above 0, `min_tokens` is above `max_tokens`, `last_token` is not a token
    /// of the model, the model panics, or a text gets no finite logit for any allowed token.
    pub fn generate<M: CausalModel<State: SelectTexts>>(
        &self,
        model: &M,
        state: M::State,
        prompts: &[impl AsRef<[u32]>],
    ) -> Vec<Vec<BeamOutput>> {
        const NAME: &str = "BeamConfig";
        check_prompts(NAME, prompts);
        let sizes = [("beams", self.beams), ("max_tokens", self.max_tokens)];
        assert_positive(NAME, &sizes);
        assert_finite(NAME, "length_penalty", self.length_penalty.exponent());
        check_repetition(NAME, self.repetition_penalty);
        check_min_tokens(NAME, self.min_tokens, self.max_tokens);
        let seen = model.lengths(&state);
        let room = |(b, prompt): (usize, &_)| {
            let len = seen.get(b).unwrap_or(&0) + AsRef::<[u32]>::as_ref(prompt).len();
            // The last token does not need a position.
            let limit = model.position_limit().map(|limit| limit.max_positions);
            let room = limit.map(|limit| limit.saturating_sub(len) + 1);
            room.map_or(self.max_tokens, |room| room.min(self.max_tokens))
        };
        let rooms: Vec<usize> = prompts.iter().enumerate().map(room).collect();
        let mut found = vec![Vec::new(); prompts.len()];
        for max_tokens in rooms.iter().copied().collect::<BTreeSet<_>>() {
            let texts = (0..prompts.len()).filter(|b| rooms[*b] == max_tokens);
            let texts: Vec<usize> = texts.collect();
            let mut state = state.clone();
            if texts.len() < prompts.len() && !seen.is_empty() {
                let indices: Vec<i64> = texts.iter().map(|b| *b as i64).collect();
                state.select(Tensor::from_data(indices.as_slice(), &model.device()));
            }
            let of_texts = texts.iter().map(|b| prompts[*b].as_ref().to_vec());
            let outputs = self.search(model, state, of_texts.collect(), max_tokens);
            for (b, outputs) in texts.into_iter().zip(outputs) {
                found[b] = outputs;
            }
        }
        found
    }

    /// [`generate`](Self::generate) for texts that end after `max_tokens`.
    fn search<M: CausalModel<State: SelectTexts>>(
        &self,
        model: &M,
        state: M::State,
        prompts: Vec<Vec<u32>>,
        max_tokens: usize,
    ) -> Vec<Vec<BeamOutput>> {
        let config = &BeamSearchConfig::new(max_tokens)
            .with_beam(self.beams)
            .with_n_best(self.beams)
            .with_min_len(self.min_tokens.saturating_sub(1))
            .with_length_penalty(self.length_penalty)
            .with_repetition_penalty(self.repetition_penalty)
            .with_no_repeat_ngram_size(self.no_repeat_ngram_size);
        let early_stopping = self.early_stopping;
        let rules = Rules::Transformers { early_stopping };
        let mut decoding = TextDecoding::new(model, state, prompts)
            .with_ends(self.stop_tokens.clone())
            .with_normalize(|row, len| self.normalize(row, len == max_tokens));
        let finish = |row: &mut [f64], len: usize| self.finish(row, len, max_tokens);
        let changes = self.renormalize || self.last_token.is_some();
        let search = Search {
            config,
            rules,
            finish: if changes { Some(&finish) } else { None },
        };
        let found = search.run(&mut decoding, &|| false);
        found.unwrap_or_else(|error| panic!("BeamConfig: {error}"))
    }

    /// Turns the logits of a token, which may be the last one of its text, into log-probabilities.
    fn normalize(&self, row: &mut [f64], is_last: bool) {
        if let Some(last) = self.last_token.filter(|_| is_last) {
            let tokens = 0..row.len();
            assert!(
                tokens.contains(&(last as usize)),
                "BeamConfig: last_token expected in {tokens:?}, got {last}"
            );
            return force(row, last);
        }
        let is_excluded = |token: usize| self.excluded_tokens.contains(&(token as u32));
        let is_possible = |(token, logit): (usize, &f64)| logit.is_finite() && !is_excluded(token);
        assert!(
            row.iter().enumerate().any(is_possible),
            "BeamConfig: a finite logit of a token that is not excluded expected, got none"
        );
        let invalid = row.iter_mut().filter(|logit| logit.is_nan());
        invalid.for_each(|it| *it = NEVER);
        log_softmax(row);
        exclude(row, &self.excluded_tokens);
    }

    /// Forces the last token of a text, or normalizes once more: `transformers` does both after all other changes.
    fn finish(&self, row: &mut [f64], len: usize, max_tokens: usize) {
        match self.last_token.filter(|_| len == max_tokens) {
            Some(last) => force(row, last),
            None if self.renormalize => {
                if len < self.min_tokens {
                    exclude(row, &self.stop_tokens);
                }
                if row.iter().any(|it| it.is_finite()) {
                    log_softmax(row);
                }
            }
            None => {}
        }
    }
}

const NEVER: f64 = f64::NEG_INFINITY;

/// Leaves the token `last` alone, with probability 1.
fn force(row: &mut [f64], last: u32) {
    row.fill(NEVER);
    row[last as usize] = 0.0;
}

fn exclude(row: &mut [f64], tokens: &[u32]) {
    for &token in tokens {
        if let Some(it) = row.get_mut(token as usize) {
            *it = NEVER;
        }
    }
}
