//! Parts of several states, by examples.

use std::ops::Range;

use crate::slices::equal_parts;

/// The same part, of `len` elements, of each of `N` states.
pub(super) fn of_states<E, const N: usize>(
    states: &[E],
    len: usize,
    part: Range<usize>,
) -> [&[E]; N] {
    std::array::from_fn(|n| &states[n * len..][part.clone()])
}

/// The same part of each of `N` slices; empty for an empty slice.
#[inline(always)]
pub(super) fn part_of_each<'a, E, const N: usize>(
    slices: &[&'a [E]; N],
    part: &Range<usize>,
) -> [&'a [E]; N] {
    slices.map(|slice| slice.get(part.clone()).unwrap_or_default())
}

/// Cuts each of `N` states into parts of `size` elements, and groups the parts of the same examples.
pub(super) fn parts_of_states<E, const N: usize>(
    states: &mut [E],
    size: usize,
) -> Vec<[&mut [E]; N]> {
    let parts = equal_parts(states, N).into_iter();
    let mut parts: Vec<_> = parts.map(|state| state.chunks_mut(size)).collect();
    let count = parts.first().map_or(0, ExactSizeIterator::len);
    let mut next = |n: usize| parts[n].next().unwrap_or_default();
    (0..count).map(|_| std::array::from_fn(&mut next)).collect()
}
