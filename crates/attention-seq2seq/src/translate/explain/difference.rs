//! Outputs compared with references.

use serde::Serialize;

use super::Explanation;
use crate::metrics::{AlignedStep, Closest, aligned_steps};
use crate::translate::Translator;

/// An output, compared with the closest reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The reference, as a text.
    pub reference: String,
    /// The smallest number of insertions, deletions and substitutions between the two.
    pub edits: usize,
    /// The tokens of both, step by step.
    pub steps: Vec<AlignedStep>,
}

impl Explanation {
    /// Compares each output with the closest of these references, any of which is right; without references, outputs
    /// stay unchanged. `translator` joins the tokens of references to texts.
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
