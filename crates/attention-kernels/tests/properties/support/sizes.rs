//! Sizes of inputs.

use super::bytes::Bytes;
use super::owned_mask::pair;

/// Pairs of elements that a case multiplies at most: it is cut down to that.
const LARGEST: usize = 150_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) heads: usize,
    /// A divisor of `heads`.
    pub(super) key_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) size: usize,
    pub(super) value_size: usize,
}

impl Sizes {
    pub(super) fn from_bytes(bytes: &mut Bytes) -> Self {
        let small = |bytes: &mut Bytes| [1, 2, 3, 4, 5, 0][bytes.next() % 6];
        let (batch, heads) = (small(bytes), small(bytes));
        let queries = match bytes.next() {
            few @ ..160 => [1, 2, 3, 4, 5, 0][few % 6],
            many => 6 + many % 64,
        };
        let keys = match bytes.next() {
            few @ ..190 => (few + 7) % 71,
            many => 100 + (many - 190) * 4,
        };
        let size = |bytes: &mut Bytes| match bytes.next() {
            any @ ..220 => (any + 3) % 41,
            many => many % 4 * 16 + 16,
        };
        let (size, value_size) = (size(bytes), size(bytes));
        let mut sizes = Self {
            batch,
            heads,
            key_heads: heads,
            queries,
            keys,
            size,
            value_size,
        };
        while sizes.pairs() * (size + value_size + 1) > LARGEST {
            let axes = [&mut sizes.batch, &mut sizes.heads, &mut sizes.queries];
            let largest = axes.into_iter().max().filter(|size| **size > 1);
            *largest.unwrap_or(&mut sizes.keys) /= 2;
        }
        let heads = sizes.heads;
        let divisors = (1..=heads).rev().filter(|n| heads.is_multiple_of(*n));
        if heads > 0 {
            sizes.key_heads = bytes.one_of(&divisors.collect::<Vec<_>>());
        }
        sizes
    }

    /// How many scores there are.
    pub(super) fn pairs(&self) -> usize {
        self.batch * self.heads * self.queries * self.keys
    }

    /// `[batch, heads, queries, keys]`
    pub(super) fn scores(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    /// Batch, head, query and key of the score `at`.
    pub(super) fn pair(&self, at: usize) -> [usize; 4] {
        pair(self.scores(), at)
    }

    /// The element of a relative bias for a pair.
    pub(super) fn distance(&self, [batch, head, query, key]: [usize; 4]) -> [usize; 4] {
        [batch, head, 0, key + self.queries - 1 - query]
    }

    /// The head of the keys that a head of the queries attends to.
    pub(super) fn key_head(&self, head: usize) -> usize {
        head * self.key_heads / self.heads
    }
}
