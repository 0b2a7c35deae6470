//! Counts of n-grams.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each sequence of `order` consecutive tokens occurs.
pub(super) fn ngrams<T: Eq + Hash>(tokens: &[T], order: usize) -> HashMap<&[T], usize> {
    let mut counts = HashMap::new();
    for ngram in tokens.windows(order) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// The number of n-grams that `output` shares with another sequence, each counted at most as often as it occurs there.
pub(super) fn shared<T: Eq + Hash>(
    output: &HashMap<&[T], usize>,
    other: &HashMap<&[T], usize>,
) -> usize {
    let counts = output.iter();
    counts
        .map(|(ngram, count)| *count.min(other.get(ngram).unwrap_or(&0)))
        .sum()
}
