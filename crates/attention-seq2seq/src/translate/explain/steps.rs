//! The steps of an output, with the tokens that could have been chosen.

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

use super::ExplainConfig;
use super::rounded::{self, Rounded};
use crate::error::{Error, Result};
use crate::model::each_forced_step;
use crate::stop::StopSignal;
use crate::text::vocab::Vocab;
use crate::translate::align::END;
use crate::translate::{ScoredHypothesis, Translator};

/// The number of outputs that are decoded at once.
const OUTPUTS: usize = 32;

/// A step of an output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedStep {
    /// The token; `<eos>` for the end.
    pub token: String,
    /// The log-probability of the token, given the earlier ones.
    pub log_probability: f64,
    /// The entropy of the distribution that it was chosen from, in nats: 0 if one token is certain, the logarithm of
    /// the number of tokens if all are equally likely.
    #[serde(serialize_with = "rounded::entropy")]
    pub entropy: f64,
    /// The most likely tokens of the step, the best first.
    pub alternatives: Vec<Alternative>,
}

impl ExplainedStep {
    /// The probability of the token.
    pub fn probability(&self) -> f64 {
        self.log_probability.exp()
    }
}

/// A token that a step could have chosen. Its JSON form is an array, `[token, probability]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The token; `<eos>` for the end.
    pub token: String,
    /// Its probability.
    pub probability: f64,
}

impl Serialize for Alternative {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&self.token)?;
        pair.serialize_element(&Rounded::probability(self.probability))?;
        pair.end()
    }
}

impl Translator {
    /// The steps of each output. From them an output without a probability (greedy search's or a given one) gets its
    /// probability and score.
    pub(super) fn steps_of(
        &self,
        source: &[String],
        outputs: &mut [ScoredHypothesis],
        config: &ExplainConfig,
        stop: StopSignal<'_>,
    ) -> Result<Vec<Vec<ExplainedStep>>> {
        let search = config.search.beam_search(self.max_len, Vec::new());
        let with_weights = search.coverage_penalty > 0.0;
        let source = self.vocabs.source.encode(source);
        let mut all = Vec::with_capacity(outputs.len());
        for outputs in outputs.chunks_mut(OUTPUTS) {
            let target = |output: &ScoredHypothesis| self.vocabs.target.try_encode(&output.tokens);
            let targets = outputs.iter().map(target).collect::<Result<Vec<_>>>()?;
            let longest = targets.iter().map(Vec::len).max().unwrap_or(0);
            let sources = vec![&source[..]; outputs.len()];
            let mut decoding = self.decoding(&sources, longest + 1, with_weights);
            let candidates = decoding.candidates().to_vec();
            let token = |column: usize| self.token_or_end(candidates[column]);
            let mut steps = vec![Vec::new(); outputs.len()];
            let mut coverage: Vec<Vec<f64>> = vec![Vec::new(); outputs.len()];
            let mut broken = None;
            each_forced_step(&mut *decoding, &targets, stop, |step| {
                let of_output = &mut steps[step.row];
                let (row, column) = (step.log_probabilities, step.column);
                if row[column].is_nan() {
                    broken.get_or_insert(of_output.len() + 1);
                }
                // The end token that an output lacks reads nothing.
                if of_output.len() < outputs[step.row].steps() {
                    let sums = &mut coverage[step.row];
                    let weights = step.weights.unwrap_or_default();
                    sums.resize(weights.len(), 0.0);
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum += f64::from(weight);
                    }
                }
                let alternative = |column: usize| Alternative {
                    token: token(column),
                    probability: row[column].exp(),
                };
                let alternatives = most_likely(row, config.alternatives).into_iter();
                of_output.push(ExplainedStep {
                    token: token(column),
                    log_probability: row[column],
                    entropy: entropy(row),
                    alternatives: alternatives.map(alternative).collect(),
                });
            })?;
            if let Some(position) = broken {
                return Err(Error::NoProbabilities { position });
            }
            for ((steps, coverage), output) in steps.iter_mut().zip(coverage).zip(outputs) {
                steps.truncate(output.steps());
                if output.log_probability.is_nan() {
                    if with_weights && coverage.is_empty() && !steps.is_empty() {
                        search.coverage_weights(None)?;
                    }
                    let sum = steps.iter().map(|step| step.log_probability).sum();
                    output.log_probability = sum;
                    output.score = search.score(sum, steps.len(), &coverage);
                }
            }
            all.extend(steps);
        }
        Ok(all)
    }

    fn token_or_end(&self, id: u32) -> String {
        match id {
            Vocab::EOS => END.to_string(),
            id => self.vocabs.target.decode(&[id]).concat(),
        }
    }
}

/// The entropy of a distribution, from log-probabilities: `-sum p log p`.
fn entropy(log_probabilities: &[f64]) -> f64 {
    let terms = log_probabilities.iter().map(|&it| match it {
        // 0 log 0 is 0.
        f64::NEG_INFINITY => 0.0,
        it => -it * it.exp(),
    });
    // An empty sum of zeros is -0.
    terms.sum::<f64>().max(0.0)
}

/// The columns of the largest elements, the largest first; of equal ones, the first column first.
fn most_likely(row: &[f64], count: usize) -> Vec<usize> {
    let count = count.min(row.len());
    let order = |a: &usize, b: &usize| row[*b].total_cmp(&row[*a]).then(a.cmp(b));
    let mut columns: Vec<usize> = (0..row.len()).collect();
    if count < columns.len() {
        columns.select_nth_unstable_by(count, order);
        columns.truncate(count);
    }
    columns.sort_unstable_by(order);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_likely_come_in_order() {
        let row = [-3.0, -0.5, -7.0, -0.5, f64::NEG_INFINITY];
        assert_eq!(most_likely(&row, 3), [1, 3, 0]);
        assert_eq!(most_likely(&row, 9), [1, 3, 0, 2, 4]);
        assert_eq!(most_likely(&row, 0), [0; 0]);
    }

    #[test]
    fn entropy_is_that_of_its_definition() {
        let uniform = [0.25_f64.ln(); 4];
        assert!((entropy(&uniform) - 4.0_f64.ln()).abs() < 1e-12);
        let certain = entropy(&[0.0, f64::NEG_INFINITY]);
        assert_eq!((certain, certain.is_sign_positive()), (0.0, true));
        let skewed = [0.7_f64, 0.2, 0.1];
        let expected = -skewed.map(|p| p * p.ln()).iter().sum::<f64>();
        assert!((entropy(&skewed.map(f64::ln)) - expected).abs() < 1e-12);
    }
}
