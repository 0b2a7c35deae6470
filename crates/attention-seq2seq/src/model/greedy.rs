//! Greedy search.

use super::{Decoding, Translation};
use crate::text::vocab::Vocab;

impl Translation {
    /// The state before the first step.
    pub(super) fn new(examples: usize) -> Self {
        Self {
            tokens: vec![Vec::new(); examples],
            ended: vec![false; examples],
            weights: Vec::new(),
        }
    }

    /// Adds the token that a step has chosen for an example; returns whether the example goes on.
    pub(super) fn add(&mut self, example: usize, token: u32) -> bool {
        self.ended[example] |= token == Vocab::EOS;
        if !self.ended[example] {
            self.tokens[example].push(token);
        }
        !self.ended[example]
    }
}

/// Greedy search, without weights: [`Seq2SeqModel::greedy`](super::Seq2SeqModel::greedy). An example that has ended is
/// left out of later steps.
pub(crate) fn greedy_search(decoding: &mut dyn Decoding, max_len: usize) -> Translation {
    let mut outputs = Translation::new(decoding.rows());
    let mut examples: Vec<usize> = (0..decoding.rows()).collect();
    let mut previous = Vec::new();
    for _ in 0..max_len {
        let chosen = decoding.most_likely(&previous);
        let mut kept = Vec::with_capacity(chosen.len());
        for (row, &token) in chosen.iter().enumerate() {
            if outputs.add(examples[row], token) {
                kept.push(row);
            }
        }
        if kept.is_empty() {
            break;
        }
        decoding.select(&kept);
        examples = kept.iter().map(|&row| examples[row]).collect();
        previous = kept.iter().map(|&row| chosen[row]).collect();
    }
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NextTokens;

    const A: u32 = Vocab::SPECIAL_TOKENS as u32;

    /// Each example writes a given number of tokens, and ends.
    struct Lengths {
        all: Vec<usize>,
        /// The tokens that each row has still to write.
        left: Vec<usize>,
        /// The rows of each step.
        computed: Vec<usize>,
    }

    impl Lengths {
        fn new(all: &[usize]) -> Self {
            Self {
                all: all.to_vec(),
                left: all.to_vec(),
                computed: Vec::new(),
            }
        }
    }

    impl Decoding for Lengths {
        fn candidates(&self) -> &[u32] {
            &[Vocab::EOS, A]
        }

        fn is_end(&self, token: u32) -> bool {
            token == Vocab::EOS
        }

        fn rows(&self) -> usize {
            self.left.len()
        }

        fn step(&mut self, previous: &[u32]) -> NextTokens {
            let is_first = self.computed.is_empty();
            assert_eq!(previous.len(), if is_first { 0 } else { self.left.len() });
            self.computed.push(self.left.len());
            let next = self.left.iter_mut().flat_map(|left| {
                let probabilities = if *left == 0 { [0.9, 0.1] } else { [0.1, 0.9] };
                *left = left.saturating_sub(1);
                probabilities.map(f64::ln)
            });
            NextTokens {
                log_probabilities: next.collect(),
                weights: None,
            }
        }

        fn select(&mut self, rows: &[usize]) {
            self.left = rows.iter().map(|&row| self.left[row]).collect();
        }

        fn restart(&mut self, examples: &[usize]) {
            self.left = examples.iter().map(|&example| self.all[example]).collect();
        }
    }

    #[test]
    fn an_example_that_has_ended_is_no_row_any_more() {
        let mut decoding = Lengths::new(&[2, 0, 5, 1, 2]);
        let outputs = greedy_search(&mut decoding, 4);
        let lens: Vec<usize> = outputs.tokens.iter().map(Vec::len).collect();
        assert_eq!(lens, [2, 0, 4, 1, 2]);
        assert_eq!(outputs.ended, [true, true, false, true, true]);
        assert_eq!(decoding.computed, [5, 4, 3, 1]);
        let mut decoding = Lengths::new(&[1, 0]);
        greedy_search(&mut decoding, 9);
        assert_eq!(decoding.computed, [2, 1]);
    }
}
