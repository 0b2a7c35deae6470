//! The size of an explanation.

use super::ExplainConfig;
use crate::error::{Error, Result};
use crate::text::vocab::Vocab;
use crate::translate::translator::Member;
use crate::translate::{ScoredHypothesis, Translator};

impl Translator {
    /// Checks that the explanation of these outputs has no more numbers than the settings allow, before they are
    /// computed.
    pub(super) fn check_numbers(
        &self,
        source: &[String],
        outputs: &[ScoredHypothesis],
        config: &ExplainConfig,
    ) -> Result<()> {
        let Some(most) = config.most_numbers else {
            return Ok(());
        };
        let weights = match &self.members[..] {
            [Member { model, .. }] => {
                model.all_heads() * (source.len() + usize::from(model.attends_to_end()))
            }
            // An ensemble has no attention of its own.
            _ => 0,
        };
        let occludes = config.occludes(source);
        let changes = if occludes { source.len() } else { 0 };
        // The end token, and the tokens of the data.
        let candidates = 1 + self.vocabs.target.len() - Vocab::SPECIAL_TOKENS;
        let of_step = weights + changes + config.alternatives.min(candidates);
        let steps = outputs.iter().map(ScoredHypothesis::steps);
        let found = steps.sum::<usize>().saturating_mul(of_step);
        if found > most {
            return Err(Error::ExplanationTooLarge { most, found });
        }
        Ok(())
    }
}
