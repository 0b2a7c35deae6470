//! The probability of given outputs.

use super::batches::{check_sources, of_one_length};
use super::{TokenScores, Translator};
use crate::error::{Error, Result};
use crate::model::forced_log_probabilities;
use crate::stop::StopSignal;

impl Translator {
    /// The probability that the model assigns to `target` as the output of `source`, token by token: low ones point to
    /// possible errors in a lexicon. A probability is over the tokens that an output can have, as in
    /// [`n_best`](Self::n_best), whose outputs have the same probabilities.
    ///
    /// Source tokens that are not in the vocabulary are read as [`Vocab::UNK`](crate::Vocab::UNK).
    ///
    /// # Errors
    /// [`Error::Config`] without source tokens; [`Error::UnknownToken`] for a target token that is not in the
    /// vocabulary; [`Error::NoProbabilities`] if logits of the model are NaN or infinite.
    pub fn score(&self, source: &[String], target: &[String]) -> Result<TokenScores> {
        let mut scores = self.score_all(&[(source, target)])?;
        Ok(scores.remove(0))
    }

    /// The [`score`](Self::score) of each pair of source and target, computed together.
    ///
    /// # Errors
    /// The error of [`score`](Self::score) for the first pair that has one.
    pub fn score_all(&self, pairs: &[(&[String], &[String])]) -> Result<Vec<TokenScores>> {
        self.score_all_until(pairs, StopSignal::NEVER)
    }

    /// As [`score_all`](Self::score_all), unless `stop` signals.
    pub(super) fn score_all_until(
        &self,
        pairs: &[(&[String], &[String])],
        stop: StopSignal<'_>,
    ) -> Result<Vec<TokenScores>> {
        let sources: Vec<&[String]> = pairs.iter().map(|(source, _)| *source).collect();
        check_sources(&sources)?;
        let sources = self.encoded(&sources);
        let vocab = &self.vocabs.target;
        let targets = pairs.iter().map(|(_, target)| vocab.try_encode(target));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let lens: Vec<usize> = sources.iter().map(Vec::len).collect();
        let mut scores = vec![None; pairs.len()];
        for indices in of_one_length(&lens, self.batch_size()) {
            stop.check()?;
            let of_batch = |all: &'_ [Vec<u32>]| -> Vec<Vec<u32>> {
                indices.iter().map(|&index| all[index].clone()).collect()
            };
            let (sources, targets) = (of_batch(&sources), of_batch(&targets));
            let steps = targets.iter().map(|target| target.len() + 1);
            let steps = steps.max().unwrap_or(0);
            let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            let mut decoding = self.decoding(&sources, steps, false);
            let forced = forced_log_probabilities(&mut *decoding, &targets, stop)?;
            for (index, tokens) in indices.iter().zip(forced) {
                if let Some(at) = tokens.iter().position(|it| it.is_nan()) {
                    return Err(Error::NoProbabilities { position: at + 1 });
                }
                scores[*index] = Some(TokenScores {
                    log_probability: tokens.iter().sum(),
                    tokens,
                });
            }
        }
        Ok(scores.into_iter().flatten().collect())
    }
}
