//! Parts of a matrix that tasks write at the same time.

use std::marker::PhantomData;
use std::ops::Range;

/// Some rows and columns of a matrix to write to. Blocks of one matrix do not overlap, so each can belong to a task.
#[derive(Debug)]
pub struct Block<'a, E> {
    first: *mut E,
    sizes: [usize; 2],
    /// The distance from one row to the next.
    stride: usize,
    elements: PhantomData<&'a mut [E]>,
}

// SAFETY: nothing else refers to its elements, as in a `&mut [E]`.
unsafe impl<E: Send> Send for Block<'_, E> {}

impl<'a, E> Block<'a, E> {
    /// The matrix with this number of rows and columns, whose element `[r, c]` is `elements[r * stride + c]`.
    ///
    /// # Panics
    /// If rows overlap, or an element lies outside `elements`.
    #[inline(always)]
    pub fn new(elements: &'a mut [E], [rows, columns]: [usize; 2], stride: usize) -> Self {
        // Saturating, because anything that overflows is longer than any slice.
        let reach = rows.saturating_sub(1).saturating_mul(stride);
        let is_empty = rows == 0 || columns == 0;
        assert!(is_empty || columns <= stride && elements.len() >= reach.saturating_add(columns));
        Self {
            first: elements.as_mut_ptr(),
            sizes: [rows, columns],
            stride,
            elements: PhantomData,
        }
    }

    /// The numbers of rows and columns.
    #[inline(always)]
    pub fn sizes(&self) -> [usize; 2] {
        self.sizes
    }

    /// The first element, and the distance between rows.
    #[inline(always)]
    pub(super) fn raw(&mut self) -> (*mut E, usize) {
        (self.first, self.stride)
    }

    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [E] {
        let [rows, columns] = self.sizes;
        assert!(row < rows);
        if columns == 0 {
            return &mut [];
        }
        // SAFETY: the row is one of the matrix, whose elements `new` has checked, and nothing else refers to it while
        // this block is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.stride), columns) }
    }

    /// Some rows and columns, as long as this block is borrowed.
    ///
    /// # Panics
    /// If they are beyond the block.
    #[inline(always)]
    pub fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> Block<'_, E> {
        // SAFETY: while the part exists this block cannot be used.
        unsafe { self.unchecked_part(rows, columns) }
    }

    /// The whole block in tiles of at most `rows` and `columns`, each with the row and column where it begins.
    ///
    /// # Panics
    /// If tiles have no rows or no columns.
    pub fn tiles(self, [rows, columns]: [usize; 2]) -> Vec<([usize; 2], Self)> {
        let [all_rows, all_columns] = self.sizes;
        let mut tiles = Vec::new();
        for row in (0..all_rows).step_by(rows) {
            for column in (0..all_columns).step_by(columns) {
                let of_rows = row..all_rows.min(row + rows);
                let of_columns = column..all_columns.min(column + columns);
                // SAFETY: no two tiles share an element, and `self` is not used again.
                let tile = unsafe { self.unchecked_part(of_rows, of_columns) };
                tiles.push(([row, column], tile));
            }
        }
        tiles
    }

    /// # Panics
    /// If they are beyond the block.
    ///
    /// # Safety
    /// While both exist, no element may be written by one and used by the other.
    #[inline(always)]
    unsafe fn unchecked_part<'b>(&self, rows: Range<usize>, columns: Range<usize>) -> Block<'b, E> {
        let [all_rows, all_columns] = self.sizes;
        assert!(rows.start <= rows.end && rows.end <= all_rows);
        assert!(columns.start <= columns.end && columns.end <= all_columns);
        let first = rows.start * self.stride + columns.start;
        Block {
            // Without bounds checks, because nothing is read from an empty part.
            first: self.first.wrapping_add(first),
            sizes: [rows.len(), columns.len()],
            stride: self.stride,
            elements: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_a_whole_matrix_and_leave_the_rest() {
        let (rows, columns, stride) = (5, 7, 9);
        for tile in [[1, 1], [2, 3], [5, 7], [9, 2], [3, 9]] {
            let mut elements = vec![-1; rows * stride];
            let mut whole = Block::new(&mut elements, [rows, columns], stride);
            let mut tiles = whole.part(0..rows, 0..columns).tiles(tile);
            // Interleaved: none is in the way of another.
            for row in 0..tile[0] {
                for ([first_row, first_column], tile) in &mut tiles {
                    let [count, width] = tile.sizes();
                    if row < count {
                        for (column, element) in tile.row(row).iter_mut().enumerate() {
                            *element = ((*first_row + row) * 100 + *first_column + column) as i32;
                        }
                        assert_eq!(tile.row(row).len(), width);
                    }
                }
            }
            whole.part(1..2, 2..3).row(0)[0] += 1000;
            for (at, &element) in elements.iter().enumerate() {
                let (row, column) = (at / stride, at % stride);
                let expected = match column < columns {
                    true => row * 100 + column + 1000 * usize::from((row, column) == (1, 2)),
                    false => {
                        assert_eq!(element, -1);
                        continue;
                    }
                };
                assert_eq!(element as usize, expected, "{tile:?}");
            }
        }
        assert!(Block::new(&mut [0; 0], [0, 3], 3).tiles([2, 2]).is_empty());
        assert!(Block::new(&mut [0; 0], [3, 0], 0).tiles([2, 2]).is_empty());
    }

    #[test]
    fn a_block_beyond_its_elements_is_refused() {
        for ([rows, columns], stride) in
            [([2, 3], 3), ([1, 6], 6), ([2, 3], 2), ([3, 1], usize::MAX)]
        {
            let refused = std::panic::catch_unwind(|| {
                Block::new(&mut [0; 5], [rows, columns], stride).sizes()
            });
            assert!(refused.is_err(), "{rows} {columns} {stride}");
        }
        let mut elements = [0; 6];
        let mut block = Block::new(&mut elements, [2, 3], 3);
        let part = std::panic::AssertUnwindSafe(|| block.part(0..3, 0..1).sizes());
        assert!(std::panic::catch_unwind(part).is_err());
    }
}
