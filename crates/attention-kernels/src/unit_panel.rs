//! Rows cut into columns of [`UNIT_LANES`] hidden units: the order in which the backward pass reads them.

use cpu_kernels::{Buffer, Real};

use crate::slices::add_weighted;
use crate::tiles::UNIT_LANES;

/// `[unit blocks][rows][UNIT_LANES]`: for one block of units, all rows are adjacent. If rows were contiguous, they
/// would be `units` apart, which for powers of two maps them to a few sets of a cache.
#[derive(Debug, Default)]
pub(crate) struct UnitPanel<E> {
    data: Buffer<E>,
    rows: usize,
}

impl<E: Real> UnitPanel<E> {
    /// Resizes to rows of some blocks of units, all zeros.
    pub(crate) fn reset(&mut self, rows: usize, blocks: usize) {
        self.data.of_len(blocks * rows * UNIT_LANES).fill(E::ZERO);
        self.rows = rows;
    }

    /// The elements of row `row`, [`UNIT_LANES`] for each block of units.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, row: usize) -> impl Iterator<Item = &mut [E]> {
        let columns = self.data.chunks_exact_mut(self.rows * UNIT_LANES);
        columns.map(move |column| &mut column[row * UNIT_LANES..(row + 1) * UNIT_LANES])
    }

    /// The number of blocks of units.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        self.data.len() / (self.rows * UNIT_LANES)
    }

    /// One block of units, `[rows][UNIT_LANES]`.
    #[inline(always)]
    pub(crate) fn block(&self, block: usize) -> &[E] {
        &self.data[block * self.rows * UNIT_LANES..(block + 1) * self.rows * UNIT_LANES]
    }

    /// One block of units, `[rows][UNIT_LANES]`.
    #[inline(always)]
    pub(crate) fn block_mut(&mut self, block: usize) -> &mut [E] {
        &mut self.data[block * self.rows * UNIT_LANES..(block + 1) * self.rows * UNIT_LANES]
    }

    /// Adds `weight[u]` times row `row` to `to`.
    #[inline(always)]
    pub(crate) fn add_row_to(&self, row: usize, weight: &[E], to: &mut [E]) {
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
