//! The steps of a beam search.

use super::candidates::{Extension, best_extension_of, best_extensions};
use super::hypotheses::{Hypotheses, Scoring};
use super::{BeamOutput, BeamSearchConfig};
use crate::error::{Error, Result};
use crate::model::decoding::Decoding;
use crate::stop::StopSignal;
use crate::text::vocab::Vocab;

impl BeamSearchConfig {
    /// The best outputs of each example, the first one first: of those that ended, the highest score; of equal scores,
    /// the one that ended first.
    ///
    /// On a CPU they are the same in any batch of sources of one length, bit for bit: the sums of a row know of no
    /// other row. (Padding may change the last bits of an attention's sums, and so may a batch where Burn's own
    /// products run, on a GPU or without kernels.)
    ///
    /// # Errors
    /// As [`check`](Self::check); [`Error::Config`] if a token of the prefix is none of the data, or there is a
    /// coverage penalty and the model has no weights for it; [`Error::NoProbabilities`] if logits are NaN or infinite.
    pub fn search(&self, decoding: &mut dyn Decoding) -> Result<Vec<Vec<BeamOutput>>> {
        self.search_until(decoding, StopSignal::NEVER)
    }

    /// As [`search`](Self::search), until the signal.
    pub(crate) fn search_until(
        &self,
        decoding: &mut dyn Decoding,
        stop: StopSignal<'_>,
    ) -> Result<Vec<Vec<BeamOutput>>> {
        self.check()?;
        let prefix = self.columns_of_prefix(decoding.candidates())?;
        let scoring = Scoring {
            length_penalty: self.length_penalty,
            coverage_penalty: self.coverage_penalty,
            max_len: self.max_len,
            n_best: self.n_best,
        };
        let all = 0..decoding.rows();
        let mut examples: Vec<Hypotheses>;
        if self.beam == 1 || self.n_best > 1 {
            // The greedy output alone bounds no list of several.
            let first = match self.beam {
                1 => Hypotheses::new,
                _ => Hypotheses::with_greedy,
            };
            examples = all.map(|_| first()).collect();
            self.steps(decoding, &mut examples, &prefix, &scoring, stop)?;
        } else {
            examples = all.map(|_| Hypotheses::of_greedy()).collect();
            self.steps(decoding, &mut examples, &prefix, &scoring, stop)?;
            let found = examples.into_iter();
            examples = found
                .map(|example| example.after_greedy(&scoring))
                .collect();
            let going_on = examples
                .iter()
                .zip(0..)
                .filter(|(example, _)| example.live() > 0);
            let going_on: Vec<usize> = going_on.map(|(_, index)| index).collect();
            if !going_on.is_empty() {
                decoding.restart(&going_on);
                self.steps(decoding, &mut examples, &prefix, &scoring, stop)?;
            }
        }
        let outputs = examples.into_iter();
        Ok(outputs
            .map(|example| example.into_outputs(&scoring))
            .collect())
    }

    /// Steps from the beginning until no example goes on.
    fn steps(
        &self,
        decoding: &mut dyn Decoding,
        examples: &mut [Hypotheses],
        prefix: &[usize],
        scoring: &Scoring,
        stop: StopSignal<'_>,
    ) -> Result<()> {
        let tokens = decoding.candidates().to_vec();
        for len in 0..self.max_len {
            stop.check()?;
            let previous: Vec<u32> = examples.iter().flat_map(Hypotheses::last_tokens).collect();
            let next = decoding.step(&previous);
            let weights = self.coverage_weights(next.weights)?;
            let mut rows = next.log_probabilities.chunks_exact(tokens.len());
            let mut first = 0;
            let mut kept = Vec::new();
            for example in &mut *examples {
                let count = example.live();
                let rows: Vec<&[f64]> = rows.by_ref().take(count).collect();
                // A row without probabilities is NaN in all of its elements.
                if rows.iter().any(|row| row[0].is_nan()) {
                    return Err(Error::NoProbabilities { position: len + 1 });
                }
                let sums = example.log_probabilities();
                let columns = match prefix.get(len) {
                    Some(&column) => column..column + 1,
                    None if len < self.min_len => 1..tokens.len(),
                    None => 0..tokens.len(),
                };
                let in_beam = &rows[..example.in_beam()];
                let extensions = best_extensions(in_beam, &sums, columns.clone(), self.beam);
                let of_greedy = example
                    .greedy()
                    .and_then(|parent| best_extension_of(parent, &rows, &sums, columns));
                let weights = weights
                    .as_ref()
                    .map(|weights| &weights[first..first + count]);
                let token = |extension: &Extension| tokens[extension.column];
                let parents =
                    example.extend(&extensions, of_greedy.as_ref(), token, weights, scoring);
                kept.extend(parents.into_iter().map(|parent| first + parent));
                first += count;
            }
            if kept.is_empty() || len + 1 == self.max_len {
                break;
            }
            decoding.select(&kept);
        }
        Ok(())
    }

    fn columns_of_prefix(&self, candidates: &[u32]) -> Result<Vec<usize>> {
        let column = |token: &u32| {
            let column = candidates.iter().position(|candidate| candidate == token);
            column.filter(|_| *token != Vocab::EOS).ok_or_else(|| {
                Error::config("the prefix", "tokens of the data", format!("token {token}"))
            })
        };
        self.prefix.iter().map(column).collect()
    }

    /// The weights that the coverage penalty needs; none without one.
    fn coverage_weights(&self, weights: Option<Vec<Vec<f32>>>) -> Result<Option<Vec<Vec<f32>>>> {
        if self.coverage_penalty == 0.0 {
            return Ok(None);
        }
        let weights = weights.ok_or_else(|| {
            Error::config(
                "the coverage penalty",
                "recurrent models, whose steps have one attention to the source each",
                "a model without weights of its steps",
            )
        });
        weights.map(Some)
    }
}
