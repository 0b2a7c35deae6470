//! The best extensions of an example's hypotheses.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

/// The candidates of a decoding, by column.
pub(super) struct Columns {
    pub(super) tokens: Vec<u32>,
    /// The columns of the tokens that end an output.
    pub(super) ends: Vec<usize>,
    /// The column of each token, filled at the first query.
    places: OnceCell<HashMap<u32, usize>>,
}

impl Columns {
    pub(super) fn new(tokens: Vec<u32>, is_end: impl Fn(u32) -> bool) -> Self {
        let ends = (0..tokens.len()).filter(|&column| is_end(tokens[column]));
        Self {
            ends: ends.collect(),
            places: OnceCell::new(),
            tokens,
        }
    }

    /// The column of a token, if it is a candidate.
    pub(super) fn place(&self, token: u32) -> Option<usize> {
        let tokens = || self.tokens.iter().copied();
        let places = self.places.get_or_init(|| tokens().zip(0..).collect());
        places.get(&token).copied()
    }
}

/// A hypothesis and the token that extends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extension {
    /// The index of the hypothesis.
    pub(super) parent: usize,
    /// The column of the token.
    pub(super) column: usize,
    /// The log-probability of the extended hypothesis.
    pub(super) log_probability: f64,
    /// The log-probability of the added token.
    of_token: f64,
}

/// Orders from the best to the worst. The sums of different tokens of one parent may round to the same number; then the
/// tokens decide, so that a beam of one chooses like greedy search. Of equal extensions, the one with the smaller
/// hypothesis and then the smaller column comes first.
impl Ord for Extension {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sum = other.log_probability.total_cmp(&self.log_probability);
        by_sum
            .then(self.parent.cmp(&other.parent))
            .then_with(|| other.of_token.total_cmp(&self.of_token))
            .then(self.column.cmp(&other.column))
    }
}

impl PartialOrd for Extension {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Extension {}

/// The columns of the tokens that may come next.
#[derive(Clone)]
pub(super) struct Allowed<'a> {
    pub(super) columns: Range<usize>,
    /// The columns to exclude from these.
    pub(super) without: &'a [usize],
}

/// The `count` best extensions of hypotheses by allowed tokens, the best first; the hypotheses have the
/// log-probabilities `sums`, and their next tokens the log-probabilities `rows`. A token of probability 0 is chosen
/// only if no other token is allowed.
pub(super) fn best_extensions(
    rows: &[&[f64]],
    sums: &[f64],
    allowed: &Allowed<'_>,
    count: usize,
) -> Vec<Extension> {
    let Allowed { columns, without } = allowed;
    let is_forced = columns.len() == 1 + without.len();
    // The worst of the kept extensions is on top.
    let mut best: BinaryHeap<Extension> = BinaryHeap::with_capacity(count + 1);
    for (parent, (row, sum)) in rows.iter().zip(sums).enumerate() {
        for column in columns.clone() {
            let of_token = row[column];
            let log_probability = sum + of_token;
            let is_full = best.len() == count;
            let is_better = |worst: &Extension| log_probability < worst.log_probability;
            if without.contains(&column)
                || of_token == f64::NEG_INFINITY && !is_forced
                || is_full && best.peek().is_some_and(is_better)
            {
                continue;
            }
            best.push(Extension {
                parent,
                column,
                log_probability,
                of_token,
            });
            if is_full {
                best.pop();
            }
        }
    }
    best.into_sorted_vec()
}

/// The best extension of the hypothesis `parent`, like [`best_extensions`] of that hypothesis alone.
pub(super) fn best_extension_of(
    parent: usize,
    rows: &[&[f64]],
    sums: &[f64],
    allowed: &Allowed<'_>,
) -> Option<Extension> {
    let best = best_extensions(&rows[parent..=parent], &sums[parent..=parent], allowed, 1);
    best.first().map(|&best| Extension { parent, ..best })
}
