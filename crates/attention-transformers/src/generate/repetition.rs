//! Repeated tokens.

use std::collections::BTreeSet;

/// How the tokens of a text change the scores of possible next tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    /// Multiplies the score of a token in the text if the score is below 0, and divides it otherwise.
    pub(super) penalty: f64,
    /// The size of an n-gram that no text has twice; 0 for no limit.
    pub(super) ngram_size: usize,
}

impl Repetition {
    pub(super) fn is_on(self) -> bool {
        self.penalty != 1.0 || self.ngram_size > 0
    }

    /// Modifies `scores`, logits or log-probabilities of the token after `tokens`; `column` is the place of a token.
    pub(super) fn apply(
        self,
        tokens: &[u32],
        column: impl Fn(u32) -> Option<usize>,
        scores: &mut [f64],
    ) {
        if self.penalty != 1.0 {
            let seen: BTreeSet<usize> = tokens.iter().filter_map(|&token| column(token)).collect();
            for column in seen {
                let score = scores[column];
                scores[column] = match score < 0.0 {
                    true => score * self.penalty,
                    false => score / self.penalty,
                };
            }
        }
        if self.ngram_size == 0 || tokens.len() < self.ngram_size {
            return;
        }
        let last = &tokens[tokens.len() + 1 - self.ngram_size..];
        for ngram in tokens.windows(self.ngram_size) {
            let (next, beginning) = ngram.split_last().expect("the size is not 0");
            if let Some(column) = column(*next).filter(|_| beginning == last) {
                scores[column] = f64::NEG_INFINITY;
            }
        }
    }
}
