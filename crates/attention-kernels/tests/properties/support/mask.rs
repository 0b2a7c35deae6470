//! Masks from bytes.

use super::bytes::Bytes;
use super::owned_mask::OwnedMask;
use super::random::Random;
use super::tensor::reordered;

impl OwnedMask {
    /// For scores of the sizes `shape`, `[batch, heads, queries, keys]`.
    pub(super) fn from_bytes(bytes: &mut Bytes, shape: [usize; 4]) -> Self {
        let kinds = bytes.next();
        Self {
            intervals: (kinds % 3 == 1).then(|| intervals(bytes, shape)),
            keep: (kinds / 3 % 3 == 1).then(|| keep(bytes, shape)),
        }
    }

    /// The mask of the examples in another order.
    pub(super) fn reordered(&self, order: &[usize]) -> Self {
        let intervals = self.intervals.as_ref();
        let keep = self.keep.as_ref();
        Self {
            intervals: intervals.map(|(bounds, shape)| match shape[0] {
                1 => (bounds.clone(), *shape),
                _ => (reordered(bounds, order), *shape),
            }),
            keep: keep.map(|(keep, shape)| match shape[0] {
                1 => (keep.clone(), *shape),
                _ => (reordered(keep, order), *shape),
            }),
        }
    }
}

/// The sizes of a mask: 1 where a bit is set, so that it is broadcast there.
fn broadcast<const N: usize>(bytes: &mut Bytes, shape: [usize; N]) -> [usize; N] {
    let bits = bytes.next();
    let mut axis = 0;
    shape.map(|size| {
        axis += 1;
        if bits >> (axis - 1) & 1 == 1 { 1 } else { size }
    })
}

fn intervals(bytes: &mut Bytes, shape: [usize; 4]) -> (Vec<[usize; 2]>, [usize; 2]) {
    let [batch, _, queries, keys] = shape;
    let shape = broadcast(bytes, [batch, queries]);
    let kind = bytes.next() % 5;
    let mut random = Random::new(bytes.next() as u64);
    let mut interval = |query: usize| match kind {
        // Lengths.
        0 => [0, random.below(keys + 1)],
        // Causal, from the last query back.
        1 => [0, (query + keys + 1).saturating_sub(queries)],
        // A window, beyond the keys at its end.
        2 => [query.saturating_sub(2), query + 3],
        // Anything: empty, backwards, beyond the keys.
        3 => [random.below(keys + 3), random.below(keys + 9)],
        // The first keys masked.
        _ => [random.below(keys + 1), usize::MAX],
    };
    let bounds = (0..shape[0] * shape[1]).map(|at| interval(at % shape[1]));
    (bounds.collect(), shape)
}

fn keep(bytes: &mut Bytes, shape: [usize; 4]) -> (Vec<bool>, [usize; 4]) {
    let shape = broadcast(bytes, shape);
    let eighths = bytes.one_of(&[7, 4, 1, 0, 8]);
    let mut random = Random::new(bytes.next() as u64);
    let flags = (0..shape.iter().product()).map(|_| random.below(8) < eighths);
    (flags.collect(), shape)
}
