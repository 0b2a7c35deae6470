//! Outputs beside references.

use serde::Serialize;

use super::Explanation;
use crate::metrics::{AlignedStep, Closest, aligned_steps};
use crate::translate::Translator;

/// An output beside the closest of its references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The reference, as a text.
    pub reference: String,
    /// The fewest insertions, deletions and substitutions between the two.
    pub edits: usize,
    /// The tokens of both, step by step.
    pub steps: Vec<AlignedStep>,
}

impl Explanation {
    /// Puts each output beside the closest of these references, any of which is right; without any, outputs stay as
    /// they are. `translator` joins their tokens to texts.
    pub fn with_references<R: AsRef<[String]>>(
        mut self,
        translator: &Translator,
        references: &[R],
    ) -> Self {
        if references.is_empty() {
            return self;
        }
        for output in &mut self.outputs {
            let tokens = output.tokens();
            let Closest { edits, reference } = Closest::of(&tokens, references);
            output.difference = Some(Difference {
                reference: translator.target_text(reference),
                edits,
                steps: aligned_steps(&tokens, reference),
            });
        }
        self
    }
}
