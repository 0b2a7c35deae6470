//! The steps of a beam search.

use super::decoding::{Decoding, each_row};
use super::extensions::{Allowed, Columns, best_extension_of, best_extensions};
use super::hypotheses::Hypotheses;
use super::{BeamOutput, BeamSearchConfig, Rules, Search, SearchError};

impl BeamSearchConfig {
    /// The best outputs of each example, the best first: among those that ended, by score; of equal scores, the one
    /// that ended first comes first, and of these the greedy output.
    ///
    /// On a CPU they are the same in any batch of sources of equal length, bit for bit: the sums of a row do not depend
    /// on other rows. (Padding may change the last bits of sums in an attention, and so may the batch where Burn's own
    /// products run, on a GPU or without kernels.)
    ///
    /// # Errors
    /// As [`check`](Self::check); [`SearchError::Setting`] if a token of the prefix is not one of the data, or there is
    /// a coverage penalty and the model has no weights for it; [`SearchError::NoProbabilities`] if logits are NaN or
    /// infinite.
    pub fn search(&self, decoding: &mut dyn Decoding) -> Result<Vec<Vec<BeamOutput>>, SearchError> {
        self.search_until(decoding, &|| false)
    }

    /// As [`search`](Self::search), unless `should_stop` returns that nobody waits for the outputs any more: it is
    /// called before each step.
    ///
    /// # Errors
    /// As [`search`](Self::search); [`SearchError::Stopped`] once `should_stop` returns true.
    pub fn search_until(
        &self,
        decoding: &mut dyn Decoding,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<BeamOutput>>, SearchError> {
        self.check()?;
        self.by_rules().run(decoding, should_stop)
    }

    fn columns_of_prefix(&self, decoding: &dyn Decoding) -> Result<Vec<usize>, SearchError> {
        let mut columns = Vec::with_capacity(self.prefix.len());
        for &token in &self.prefix {
            let mut candidates = decoding.candidates().iter();
            match candidates.position(|&candidate| candidate == token) {
                Some(column) if !decoding.is_end(token) => columns.push(column),
                _ => {
                    let found = format!("token {token}");
                    let expected = "tokens of the data";
                    return Err(SearchError::setting("the prefix", expected, found));
                }
            }
        }
        Ok(columns)
    }

    /// The weights of a step for the coverage penalty; `None` without a penalty.
    ///
    /// # Errors
    /// [`SearchError::Setting`] if the model has no weights.
    pub fn coverage_weights(
        &self,
        weights: Option<Vec<Vec<f32>>>,
    ) -> Result<Option<Vec<Vec<f32>>>, SearchError> {
        if self.coverage_penalty == 0.0 {
            return Ok(None);
        }
        let weights = weights.ok_or_else(|| {
            SearchError::setting(
                "the coverage penalty",
                "recurrent models, whose steps have one attention to the source each",
                "a model without weights of its steps",
            )
        });
        weights.map(Some)
    }
}

impl Search<'_> {
    pub(in crate::generate) fn run(
        &self,
        decoding: &mut dyn Decoding,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<BeamOutput>>, SearchError> {
        let BeamSearchConfig { beam, n_best, .. } = *self.config;
        let prefix = self.config.columns_of_prefix(decoding)?;
        let all = 0..decoding.rows();
        let finds_greedy_first = self.rules == Rules::Bounded && beam > 1 && n_best == 1;
        let first = match self.rules {
            Rules::Bounded if finds_greedy_first => Hypotheses::of_greedy,
            // The greedy output alone gives no bound for several outputs.
            Rules::Bounded if beam > 1 => Hypotheses::with_greedy,
            _ => Hypotheses::new,
        };
        let mut examples: Vec<Hypotheses> = all.map(|_| first()).collect();
        self.steps(decoding, &mut examples, &prefix, should_stop)?;
        if finds_greedy_first {
            let found = examples.into_iter();
            examples = found.map(|example| example.after_greedy(self)).collect();
            let going_on = examples.iter().zip(0..);
            let going_on = going_on.filter(|(example, _)| example.live() > 0);
            let going_on: Vec<usize> = going_on.map(|(_, index)| index).collect();
            if !going_on.is_empty() {
                decoding.restart(&going_on);
                self.steps(decoding, &mut examples, &prefix, should_stop)?;
            }
        }
        let outputs = examples.into_iter();
        Ok(outputs.map(|example| example.into_outputs(self)).collect())
    }

    /// Runs steps from the beginning until no example continues.
    fn steps(
        &self,
        decoding: &mut dyn Decoding,
        examples: &mut [Hypotheses],
        prefix: &[usize],
        should_stop: &dyn Fn() -> bool,
    ) -> Result<(), SearchError> {
        let config = self.config;
        let mut columns = None;
        for len in 0..config.max_len {
            if should_stop() {
                return Err(SearchError::Stopped);
            }
            let previous: Vec<u32> = examples.iter().flat_map(Hypotheses::last_tokens).collect();
            let mut next = decoding.step(&previous);
            let columns = columns.get_or_insert_with(|| {
                let tokens = decoding.candidates().to_vec();
                Columns::new(tokens, |token| decoding.is_end(token))
            });
            let width = columns.tokens.len();
            let mut rows = next.log_probabilities.chunks_exact(width);
            // A row without probabilities is NaN in all its elements.
            if rows.any(|row| row[0].is_nan()) {
                return Err(SearchError::NoProbabilities { position: len + 1 });
            }
            if config.repetition().is_on() && len >= prefix.len() {
                let rows = next.log_probabilities.chunks_exact_mut(width);
                let texts = examples.iter().flat_map(Hypotheses::texts);
                for (index, (row, text)) in rows.zip(texts).enumerate() {
                    let text = [decoding.context(index), &text].concat();
                    let column = |token| columns.place(token);
                    config.repetition().apply(&text, column, row);
                }
            }
            if let Some(finish) = self.finish {
                each_row(&mut next.log_probabilities, width, &|row| {
                    finish(row, len + 1)
                });
            }
            let allowed = Allowed {
                columns: match prefix.get(len) {
                    Some(&column) => column..column + 1,
                    None => 0..width,
                },
                without: match len < config.min_len && len >= prefix.len() {
                    true => &columns.ends,
                    false => &[],
                },
            };
            let weights = config.coverage_weights(next.weights)?;
            let count = self.extensions(columns.ends.len());
            let mut rows = next.log_probabilities.chunks_exact(width);
            let mut first = 0;
            let mut kept = Vec::new();
            for example in &mut *examples {
                let live = example.live();
                let rows: Vec<&[f64]> = rows.by_ref().take(live).collect();
                let sums = example.log_probabilities();
                let in_beam = &rows[..example.in_beam()];
                let extensions = best_extensions(in_beam, &sums, &allowed, count);
                let greedy = example.greedy();
                let of_greedy =
                    greedy.and_then(|parent| best_extension_of(parent, &rows, &sums, &allowed));
                let weights = weights.as_deref().map(|of| &of[first..][..live]);
                let parents =
                    example.extend(&extensions, of_greedy.as_ref(), columns, weights, self);
                kept.extend(parents.into_iter().map(|parent| first + parent));
                first += live;
            }
            if kept.is_empty() || len + 1 == config.max_len {
                break;
            }
            decoding.select(&kept);
        }
        Ok(())
    }
}
