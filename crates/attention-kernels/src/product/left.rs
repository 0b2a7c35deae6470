//! The left operand of a product, as the products read it.

use std::ops::Range;

use super::Matrix;
use super::pack::transpose;
use crate::simd::{Job, Level, Simd};
use crate::threads::for_each;
use crate::tiles::TRANSPOSED_ROWS;
use crate::{Buffer, Real};

/// Some steps of all rows, each row contiguous: where they are, or, of a transpose, a copy. A register block then reads
/// of each row one cache line after the other, and not at each step another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'a, E> {
    data: &'a [E],
    /// From one row to the next.
    stride: usize,
}

impl<'a, E: Real> Left<'a, E> {
    /// `buffer` is for the copy.
    pub(super) fn new(
        level: Level,
        matrix: Matrix<'a, E>,
        steps: Range<usize>,
        buffer: &'a mut Buffer<E>,
    ) -> Self {
        let (data, stride, is_transposed) = matrix.lines();
        if !is_transposed {
            let data = &data[steps.start..];
            return Self { data, stride };
        }
        let [rows, _] = matrix.sizes();
        let count = steps.len();
        let buffer = buffer.of_len(rows * count);
        let parts = buffer.chunks_mut(TRANSPOSED_ROWS * count).enumerate();
        for_each(parts, |(part, to)| {
            let task = PackRows {
                from: &data[steps.start * stride + part * TRANSPOSED_ROWS..],
                stride,
                steps: count,
                to,
            };
            E::dispatch(level, task);
        });
        Self {
            data: buffer,
            stride: count,
        }
    }

    /// The elements from a row on, and how far apart they lie from row to row and from step to step.
    #[inline(always)]
    pub(super) fn rows_from(&self, row: usize) -> (&'a [E], [usize; 2]) {
        (&self.data[row * self.stride..], [self.stride, 1])
    }
}

/// Columns to rows.
struct PackRows<'a, E> {
    from: &'a [E],
    stride: usize,
    steps: usize,
    /// `[rows, steps]`
    to: &'a mut [E],
}

impl<E: Real> Job<E> for PackRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let rows = self.to.len() / self.steps;
        transpose(
            simd,
            (self.from, self.stride),
            [self.steps, rows],
            (self.to, self.steps),
        );
    }
}
