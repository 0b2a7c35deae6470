//! The left operand of a product, in the form in which products read it.

use std::ops::Range;

use super::matrix::Matrix;
use super::pack::transpose;
use super::parts::within;
use crate::simd::{Job, Level, Simd};
use crate::threads::for_each;
use crate::tiles::{CACHE_LINE, TRANSPOSED_ROWS};
use crate::{Buffer, Real};

/// Some steps of some rows, each row contiguous: in place, or a copy if it is a transpose or there are several
/// operands. A register block then reads each row cache line by cache line, instead of a different line in each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'a, E> {
    data: &'a [E],
    /// The distance from one row to the next.
    stride: usize,
}

impl<'a, E: Real> Left<'a, E> {
    /// Whether these operands are copied: there are several, or a transpose.
    pub(super) fn is_copied(operands: &[Matrix<E>]) -> bool {
        match operands {
            [matrix] => matrix.lines().2,
            _ => true,
        }
    }

    /// Some rows and steps of concatenated operands; `buffer` is for a copy.
    pub(super) fn new(
        level: Level,
        operands: &[Matrix<'a, E>],
        [rows, steps]: [Range<usize>; 2],
        buffer: &'a mut Buffer<E>,
    ) -> Self {
        if let &[matrix] = operands
            && let (data, stride, false) = matrix.lines()
        {
            let data = &data[rows.start * stride + steps.start..];
            return Self { data, stride };
        }
        let stride = row_stride::<E>(steps.len());
        let buffer = buffer.of_len(rows.len() * stride);
        let parts = buffer.chunks_mut(TRANSPOSED_ROWS * stride).enumerate();
        for_each(parts, |(part, to)| {
            let task = CopyRows {
                operands,
                first_row: rows.start + part * TRANSPOSED_ROWS,
                steps: steps.clone(),
                stride,
                to,
            };
            E::dispatch(level, task);
        });
        Self {
            data: buffer,
            stride,
        }
    }

    /// The steps from `step` on.
    #[inline(always)]
    pub(super) fn steps_from(mut self, step: usize) -> Self {
        self.data = &self.data[step..];
        self
    }

    /// The elements from a row on, and their distances from row to row and from step to step.
    #[inline(always)]
    pub(super) fn rows_from(&self, row: usize) -> (&'a [E], [usize; 2]) {
        (&self.data[row * self.stride..], [self.stride, 1])
    }
}

/// The distance of rows in a copy: an odd number of cache lines. If it were a power of two, the rows of a block would
/// evict each other from the few cache sets for their addresses.
fn row_stride<E>(count: usize) -> usize {
    let line = CACHE_LINE / size_of::<E>();
    (count.div_ceil(line) | 1) * line
}

/// Some rows of concatenated operands.
struct CopyRows<'a, E> {
    operands: &'a [Matrix<'a, E>],
    first_row: usize,
    steps: Range<usize>,
    /// The distance from one row of the copy to the next.
    stride: usize,
    /// `[rows, stride]`, of which only the steps of each row are written.
    to: &'a mut [E],
}

impl<E: Real> Job<E> for CopyRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let to_stride = self.stride;
        let rows = self.to.len() / to_stride;
        let counts = self.operands.iter().map(|operand| operand.sizes()[1]);
        for (index, steps, at) in within(counts, self.steps) {
            let (data, stride, is_transposed) = self.operands[index].lines();
            let to = &mut self.to[at..];
            if is_transposed {
                let from = &data[steps.start * stride + self.first_row..];
                transpose(simd, (from, stride), [steps.len(), rows], (to, to_stride));
            } else {
                for (row, to) in to.chunks_mut(to_stride).enumerate() {
                    let from = &data[(self.first_row + row) * stride..];
                    to[..steps.len()].copy_from_slice(&from[steps.clone()]);
                }
            }
        }
    }
}
