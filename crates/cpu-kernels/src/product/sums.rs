//! Sums of columns.

use super::parts::OPERATION;
use crate::Real;
use crate::checks::check_len;
use crate::slices::{PartialSums, add};
use crate::threads::{TASK_ELEMENTS, for_each_with};
use crate::tiles::{SUMMED_COLUMNS, SUMMED_ROWS};

/// See [`column_sums`](super::column_sums).
pub(crate) fn sum_columns<E: Real>(matrix: &[E], sums: &mut [E]) {
    let columns = sums.len();
    if columns == 0 {
        return;
    }
    let shape = [matrix.len() / columns, columns];
    check_len(OPERATION, "summed matrix", shape, matrix.len());
    sums.fill(E::ZERO);
    // In parts, so that the addends are not small beside the sum; and by long pieces of rows, which are contiguous.
    let rows = matrix.chunks(columns * SUMMED_ROWS);
    let mut partial = PartialSums::new(sums, rows.len());
    let tasks = partial.split(1).into_iter().zip(rows);
    let tasks = tasks.flat_map(|(sums, rows)| {
        let parts = sums.chunks_mut(SUMMED_COLUMNS).enumerate();
        parts.map(move |(part, sums)| (part * SUMMED_COLUMNS, sums, rows))
    });
    let tasks: Vec<_> = tasks.collect();
    let least = TASK_ELEMENTS.div_ceil(columns.min(SUMMED_COLUMNS) * SUMMED_ROWS);
    for_each_with(
        tasks.into_iter(),
        least,
        || (),
        |(), (first, sums, rows)| {
            for row in rows.chunks_exact(columns) {
                add(&row[first..first + sums.len()], sums);
            }
        },
    );
    partial.add_up(1);
}
