//! Views of matrices.

use std::ops::Range;

use crate::Real;

/// A matrix whose rows are contiguous, or the transpose of one.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, E> {
    data: &'a [E],
    /// The sizes of the matrix as stored, with contiguous rows.
    sizes: [usize; 2],
    /// The distance from one of its rows to the next.
    stride: usize,
    is_transposed: bool,
}

impl<'a, E: Real> Matrix<'a, E> {
    /// A contiguous matrix with this number of rows and columns.
    ///
    /// # Panics
    /// If `data` does not fit `sizes`.
    pub fn new(data: &'a [E], sizes: [usize; 2]) -> Self {
        let [rows, columns] = sizes;
        assert!(
            rows.checked_mul(columns) == Some(data.len()),
            "Matrix: {sizes:?} expected {rows} times {columns} elements, got {}",
            data.len()
        );
        Self::strided(data, sizes, columns)
    }

    /// A matrix with this number of rows and columns, whose element `[r, c]` is `data[r * stride + c]`.
    ///
    /// # Panics
    /// If an element lies outside `data`.
    pub fn strided(data: &'a [E], sizes: [usize; 2], stride: usize) -> Self {
        let [rows, columns] = sizes;
        let reach = rows.saturating_sub(1).saturating_mul(stride);
        assert!(
            rows == 0 || columns == 0 || reach.saturating_add(columns) <= data.len(),
            "Matrix: {sizes:?} with stride {stride} expected at least {} elements, got {}",
            reach.saturating_add(columns),
            data.len()
        );
        Self {
            data,
            sizes,
            stride,
            is_transposed: false,
        }
    }

    /// The transpose, sharing the elements.
    pub fn transposed(mut self) -> Self {
        self.is_transposed = !self.is_transposed;
        self
    }

    /// Some of the rows.
    ///
    /// # Panics
    /// If they are beyond the matrix.
    pub fn rows(self, rows: Range<usize>) -> Self {
        self.transposed().columns(rows).transposed()
    }

    /// Some of the columns.
    ///
    /// # Panics
    /// If they are beyond the matrix.
    pub fn columns(self, columns: Range<usize>) -> Self {
        let [rows, count] = self.sizes();
        assert!(
            columns.end <= count && columns.start <= columns.end,
            "Matrix: part expected within 0..{count}, got {columns:?}"
        );
        let (first, sizes) = match self.is_transposed {
            true => (columns.start * self.stride, [columns.len(), rows]),
            false => (columns.start, [rows, columns.len()]),
        };
        let data = self.data.get(first..).unwrap_or_default();
        Self {
            data,
            sizes,
            ..self
        }
    }

    /// The numbers of rows and columns.
    pub fn sizes(&self) -> [usize; 2] {
        let [rows, columns] = self.sizes;
        if self.is_transposed {
            [columns, rows]
        } else {
            [rows, columns]
        }
    }

    /// Copies a row.
    #[inline]
    pub(crate) fn copy_row(&self, row: usize, to: &mut [E]) {
        if self.is_transposed {
            let elements = self.data[row..].iter().step_by(self.stride.max(1));
            for (to, &from) in to.iter_mut().zip(elements) {
                *to = from;
            }
        } else {
            to.copy_from_slice(&self.data[row * self.stride..][..to.len()]);
        }
    }

    /// The stored lines, their distance, and whether they are this matrix's columns.
    #[inline(always)]
    pub(crate) fn lines(&self) -> (&'a [E], usize, bool) {
        (self.data, self.stride, self.is_transposed)
    }
}
