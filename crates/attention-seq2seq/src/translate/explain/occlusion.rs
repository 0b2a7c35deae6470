//! The occlusion of source tokens.

use serde::Serialize;

use super::{ExplainConfig, ExplainedStep, rounded};
use crate::error::Result;
use crate::stop::StopSignal;
use crate::translate::{ScoredHypothesis, Translator};

/// The change of an output's log-probability if one source token is dropped and the same output is decoded from the
/// remaining source (forced decoding): below 0 if the output needs the token.
///
/// An attention weight tells where a step reads, an occlusion what the output depends on. The two may differ: the state
/// of a source token also depends on its neighbours. Li et al. 2016, "Understanding Neural Networks through
/// Representation Erasure"; Jain and Wallace 2019, "Attention is not Explanation".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Occlusion {
    /// The change for the whole output, for each source token; the end token of a source is never dropped.
    #[serde(serialize_with = "rounded::changes")]
    pub output: Vec<f64>,
    /// The change for each step, `[source tokens, steps]`, row by row.
    #[serde(serialize_with = "rounded::changes")]
    pub steps: Vec<f64>,
}

impl Translator {
    /// The occlusion of each output; empty if the source has a single token, or more than the limit.
    pub(super) fn occlusions(
        &self,
        source: &[String],
        outputs: &[ScoredHypothesis],
        steps: &[Vec<ExplainedStep>],
        config: &ExplainConfig,
        stop: StopSignal<'_>,
    ) -> Result<Option<Vec<Occlusion>>> {
        if !config.occludes(source) {
            return Ok(None);
        }
        let without = |dropped: usize| [&source[..dropped], &source[dropped + 1..]].concat();
        let sources: Vec<Vec<String>> = (0..source.len()).map(without).collect();
        let occlusions = outputs.iter().zip(steps).map(|(output, steps)| {
            let pairs = sources.iter().map(|it| (&it[..], &output.tokens[..]));
            let pairs: Vec<_> = pairs.collect();
            let mut occlusion = Occlusion {
                output: Vec::with_capacity(sources.len()),
                steps: Vec::with_capacity(sources.len() * steps.len()),
            };
            for scores in self.score_all_until(&pairs, stop)? {
                // The steps of an output that was cut off do not include the end token.
                let changes = scores.tokens.iter().zip(steps);
                let changes = changes.map(|(without, step)| without - step.log_probability);
                let first = occlusion.steps.len();
                occlusion.steps.extend(changes);
                occlusion.output.push(occlusion.steps[first..].iter().sum());
            }
            Ok(occlusion)
        });
        occlusions.collect::<Result<_>>().map(Some)
    }
}
