//! Rows added to those of a table.

use rayon::prelude::*;

use crate::Real;
use crate::checks::check_len;
use crate::slices::add;
use crate::tiles::SCATTER_TASKS;

/// Adds rows to those of a table: of each part, row `n` to the one of its index `n`. This is the gradient of an
/// embedding. Parts are added in their order; the number of threads changes no bit.
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
            check_len("rows to add", "rows", [0], rows.len());
        }
        return check_len("rows to add", "table", [0], table.len());
    }
    let count = table.len() / size;
    check_len("rows to add", "table", [count, size], table.len());
    for (indices, rows) in parts {
        check_len("rows to add", "rows", [indices.len(), size], rows.len());
        let greatest = indices.iter().copied().max().unwrap_or(0);
        assert!(
            indices.is_empty() || greatest < count,
            "rows to add: indices expected below {count}, got {greatest}"
        );
    }
    if table.is_empty() {
        return;
    }
    let rows_of_task = count.div_ceil(SCATTER_TASKS);
    let tasks = table.par_chunks_mut(rows_of_task * size).enumerate();
    tasks.for_each(|(task, table)| {
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
