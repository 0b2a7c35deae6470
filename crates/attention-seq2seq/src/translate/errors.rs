//! The errors of a translator.

use super::Translator;
use crate::corpus::Corpus;
use crate::data::{Pair, group_by_source};
use crate::metrics::TokenErrors;

impl Translator {
    /// The errors of the translations of `pairs`; of several targets of one source any is right.
    pub fn errors(&self, pairs: &[Pair]) -> TokenErrors {
        let groups = group_by_source(pairs);
        let sources: Vec<&[String]> = groups.iter().map(|group| group.source).collect();
        let mut errors = TokenErrors::new();
        self.for_each_translation(&sources, |index, output| {
            errors.add(&output.tokens, &groups[index].targets);
            if !output.ended {
                errors.add_cut_off();
            }
        });
        errors
    }

    /// The [`errors`](Self::errors) of the pairs to validate on, which need not be in memory as tokens all at once.
    pub fn valid_errors(&self, corpus: &Corpus) -> TokenErrors {
        let mut errors = TokenErrors::new();
        for pairs in corpus.valid_chunks() {
            errors.merge(self.errors(&pairs));
        }
        errors
    }
}
