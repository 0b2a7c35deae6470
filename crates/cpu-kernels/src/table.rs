//! Rows of a table: copying them, and adding to them.
//!
//! Time with Burn's operations, relative to the time with these, for a training step of 128 examples, of dates and of
//! 30,000 words: 1.03, 0.89, 1.41 (`cargo bench -p attention-benches --bench bets`).

use crate::checks::check_len;
use crate::slices::add;
use crate::threads::{TASK_ELEMENTS, for_each};
use crate::tiles::SCATTER_TASKS;
use crate::{Matrix, Real};

const OPERATION: &str = "rows of a table";

/// Copies rows of a table: row `n` becomes the table's row `indices[n]`, as in an embedding.
///
/// # Shapes
/// - table `[.., size]`
/// - rows `[indices, size]`
///
/// # Panics
/// If the shapes do not fit together, an index is beyond the table, or the table is a transpose.
pub fn copy_rows<E: Real>(table: Matrix<E>, indices: &[usize], rows: &mut [E]) {
    let [count, size] = table.sizes();
    check_len(OPERATION, "copies", [indices.len(), size], rows.len());
    check_indices(indices, count);
    let (table, stride, is_transposed) = table.lines();
    assert!(
        !is_transposed,
        "{OPERATION}: expected rows that lie one after the other"
    );
    if size == 0 {
        return;
    }
    let rows_of_task = (TASK_ELEMENTS / size).max(1);
    let tasks = rows.chunks_mut(rows_of_task * size);
    let tasks = tasks.zip(indices.chunks(rows_of_task));
    for_each(tasks, |(rows, indices)| {
        for (row, index) in rows.chunks_exact_mut(size).zip(indices) {
            row.copy_from_slice(&table[index * stride..][..size]);
        }
    });
}

fn check_indices(indices: &[usize], count: usize) {
    let greatest = indices.iter().copied().max().unwrap_or(0);
    assert!(
        indices.is_empty() || greatest < count,
        "{OPERATION}: indices expected below {count}, got {greatest}"
    );
}

/// Adds rows to a table: row `n` of each part to the table's row `indices[n]`, the gradient of an embedding. Parts are
/// added in order; the number of threads changes no bit.
///
/// # Shapes
/// - part: indices `[rows]`, rows `[rows, size]`
/// - table `[.., size]`
///
/// # Panics
/// If the shapes do not fit together, or an index is beyond the table.
pub fn add_rows<E: Real>(parts: &[(&[usize], &[E])], size: usize, table: &mut [E]) {
    if size == 0 {
        for (_, rows) in parts {
            check_len(OPERATION, "rows to add", [0], rows.len());
        }
        return check_len(OPERATION, "table", [0], table.len());
    }
    let count = table.len() / size;
    check_len(OPERATION, "table", [count, size], table.len());
    for (indices, rows) in parts {
        check_len(OPERATION, "rows to add", [indices.len(), size], rows.len());
        check_indices(indices, count);
    }
    if table.is_empty() {
        return;
    }
    let rows_of_task = count.div_ceil(SCATTER_TASKS);
    let tasks = table.chunks_mut(rows_of_task * size).enumerate();
    for_each(tasks, |(task, table)| {
        let first = task * rows_of_task;
        for (indices, rows) in parts {
            for (index, row) in indices.iter().zip(rows.chunks_exact(size)) {
                let place = index.checked_sub(first).map(|row| row * size);
                let to = place.and_then(|place| table.get_mut(place..place + size));
                if let Some(to) = to {
                    add(row, to);
                }
            }
        }
    });
}
