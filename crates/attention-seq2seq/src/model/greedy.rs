//! Greedy search.

use burn::tensor::{Int, Tensor};

use super::candidates::Candidates;
use crate::vocab::Vocab;

/// The outputs of [`greedy_search`].
pub(super) struct Outputs {
    /// The target tokens of each example, without the end token.
    pub(super) tokens: Vec<Vec<u32>>,
    /// Whether each example has ended.
    pub(super) ended: Vec<bool>,
}

/// The most likely token of each step as the input of the next, until every example has ended or has `max_len` tokens.
///
/// A step chooses among the tokens of the data and the end; padding, begin and the unknown token are never chosen.
/// Where no token is the most likely, because all logits are equal or NaN, the example ends.
///
/// `step` makes, of the tokens before `[examples]` and the state, the features that predict the next tokens
/// `[examples, size]` and the next state.
pub(super) fn greedy_search<S>(
    candidates: &Candidates,
    examples: usize,
    max_len: usize,
    mut state: S,
    mut step: impl FnMut(Tensor<1, Int>, S) -> (Tensor<2>, S),
) -> Outputs {
    let mut previous = Tensor::<1, Int>::full([examples], Vocab::BOS, &candidates.device());
    let mut tokens = vec![Vec::new(); examples];
    let mut ended = vec![false; examples];
    for _ in 0..max_len {
        let (features, next) = step(previous, state);
        state = next;
        previous = candidates.most_likely(features);
        let chosen = previous
            .try_to_vec_as::<u32>()
            .expect("tokens are integers");
        for (example, &token) in chosen.iter().enumerate() {
            ended[example] |= token == Vocab::EOS;
            if !ended[example] {
                tokens[example].push(token);
            }
        }
        if ended.iter().all(|&ended| ended) {
            break;
        }
    }
    Outputs { tokens, ended }
}
