//! Greedy search.

use burn::tensor::{Int, Tensor};

use super::Translation;
use super::candidates::Candidates;
use super::decoding::Decoding;
use crate::text::vocab::Vocab;

impl Translation {
    /// Before the first step.
    fn new(examples: usize) -> Self {
        Self {
            tokens: vec![Vec::new(); examples],
            ended: vec![false; examples],
            weights: Vec::new(),
        }
    }

    /// Adds the token that a step has chosen for each example, and tells whether all have ended.
    fn add(&mut self, chosen: &[u32]) -> bool {
        for (example, &token) in chosen.iter().enumerate() {
            self.ended[example] |= token == Vocab::EOS;
            if !self.ended[example] {
                self.tokens[example].push(token);
            }
        }
        self.ended.iter().all(|&ended| ended)
    }
}

/// Greedy search, without weights: [`Seq2SeqModel::greedy`](super::Seq2SeqModel::greedy).
///
/// `step` makes, of the tokens before `[examples]` and the state, the features that predict the next tokens
/// `[examples, size]` and the next state.
pub(super) fn greedy_search<S>(
    candidates: &Candidates,
    examples: usize,
    max_len: usize,
    mut state: S,
    mut step: impl FnMut(Tensor<1, Int>, S) -> (Tensor<2>, S),
) -> Translation {
    let mut previous = Tensor::<1, Int>::full([examples], Vocab::BOS, &candidates.device());
    let mut outputs = Translation::new(examples);
    for _ in 0..max_len {
        let (features, next) = step(previous, state);
        state = next;
        previous = candidates.most_likely(features);
        let chosen = previous.try_to_vec_as::<u32>();
        if outputs.add(&chosen.expect("tokens are integers")) {
            break;
        }
    }
    outputs
}

/// [`greedy_search`] by the steps of any decoding, such as an ensemble's.
pub(crate) fn greedy_steps(decoding: &mut dyn Decoding, max_len: usize) -> Translation {
    let candidates = decoding.candidates().to_vec();
    let mut outputs = Translation::new(decoding.rows());
    let mut previous = vec![Vocab::BOS; decoding.rows()];
    for _ in 0..max_len {
        let next = decoding.step(&previous);
        let rows = next.log_probabilities.chunks_exact(candidates.len());
        previous = rows.map(|row| candidates[most_likely(row)]).collect();
        if outputs.add(&previous) {
            break;
        }
    }
    outputs
}

/// The first of the largest elements, or the first of all, the end, if the row is NaN.
fn most_likely(row: &[f64]) -> usize {
    let mut best = 0;
    for (column, &it) in row.iter().enumerate() {
        if it > row[best] {
            best = column;
        }
    }
    best
}
