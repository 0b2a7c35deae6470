//! Rows cut into columns of [`UNIT_LANES`] hidden units: the order in which the backward pass reads them.

use cpu_kernels::simd::Simd;
use cpu_kernels::{Buffer, Real};

use super::range::{Magnitude, exponentials};
use crate::slices::add_weighted;
use crate::tiles::UNIT_LANES;

/// `[unit blocks][rows][UNIT_LANES]`: for one block of units, all rows are adjacent. In the rows' own order they
/// would be `units` apart, which for powers of two is the same few sets of a cache.
#[derive(Debug, Default)]
pub(super) struct Panel<E> {
    data: Buffer<E>,
    rows: usize,
}

impl<E: Real> Panel<E> {
    /// Becomes zeros, for rows of some blocks of units.
    pub(super) fn reset(&mut self, rows: usize, blocks: usize) {
        self.data.of_len(blocks * rows * UNIT_LANES).fill(E::ZERO);
        self.rows = rows;
    }

    /// Fills row `row` with `factor` times the [exponentials] of the row `from`, and raises the magnitude of
    /// each block of units.
    #[inline(always)]
    pub(super) fn fill_exponentials<S: Simd<E>>(
        &mut self,
        simd: S,
        row: usize,
        from: &[E],
        factor: E,
        magnitudes: &mut [Magnitude],
    ) {
        let columns = self.data.chunks_exact_mut(self.rows * UNIT_LANES);
        for (block, (column, magnitude)) in columns.zip(magnitudes).enumerate() {
            let units = block * UNIT_LANES..from.len().min((block + 1) * UNIT_LANES);
            let to = &mut column[row * UNIT_LANES..(row + 1) * UNIT_LANES];
            let from = &from[units];
            *magnitude = (*magnitude).max(exponentials(simd, from, to));
            let (to, beyond) = to.split_at_mut(from.len());
            to.iter_mut().for_each(|to| *to = factor * *to);
            beyond.fill(E::ZERO);
        }
    }

    /// One block of units, `[rows][UNIT_LANES]`.
    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[E] {
        &self.data[block * self.rows * UNIT_LANES..(block + 1) * self.rows * UNIT_LANES]
    }

    /// One block of units, `[rows][UNIT_LANES]`.
    #[inline(always)]
    pub(super) fn block_mut(&mut self, block: usize) -> &mut [E] {
        &mut self.data[block * self.rows * UNIT_LANES..(block + 1) * self.rows * UNIT_LANES]
    }

    /// Adds `weight[u]` times row `row` to `to`.
    #[inline(always)]
    pub(super) fn add_row_to(&self, row: usize, weight: &[E], to: &mut [E]) {
        let columns = self.data.chunks_exact(self.rows * UNIT_LANES);
        for ((column, weight), to) in columns
            .zip(weight.chunks(UNIT_LANES))
            .zip(to.chunks_mut(UNIT_LANES))
        {
            let from = &column[row * UNIT_LANES..(row + 1) * UNIT_LANES];
            add_weighted(weight, from, to);
        }
    }
}
