//! Parts of ranges.

use std::ops::Range;

use crate::tiles::{PRODUCT_COLUMNS, PRODUCT_STEPS};

/// The name of a product in messages.
pub(super) const OPERATION: &str = "product";

/// The steps and columns of the right operand's blocks, which are multiplied one after the other.
pub(super) fn blocks(
    steps: usize,
    columns: usize,
) -> impl Iterator<Item = [Range<usize>; 2]> + Clone {
    parts(0..columns, PRODUCT_COLUMNS).flat_map(move |columns| {
        parts(0..steps, PRODUCT_STEPS).map(move |steps| [steps, columns.clone()])
    })
}

/// The parts of consecutive matrices, with `counts` steps each, that lie within `steps`: the index of the matrix, the
/// range of its own steps, and where in `steps` they begin.
#[inline(always)]
pub(super) fn within(
    counts: impl Iterator<Item = usize>,
    steps: Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    let ends = counts.scan(0, |end, count| {
        *end += count;
        Some((*end - count, *end))
    });
    ends.enumerate().filter_map(move |(index, (first, end))| {
        let part = first.max(steps.start)..end.min(steps.end);
        let own = || part.start - first..part.end - first;
        (part.start < part.end).then(|| (index, own(), part.start - steps.start))
    })
}

/// Cuts a range into parts of `most`; the last may be shorter.
#[inline(always)]
pub(super) fn parts(
    range: Range<usize>,
    most: usize,
) -> impl Iterator<Item = Range<usize>> + Clone {
    let end = range.end;
    let starts = range.step_by(most);
    starts.map(move |first| first..end.min(first + most))
}
