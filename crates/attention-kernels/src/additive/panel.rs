//! Rows cut into columns of [`BLOCK`] hidden units: the order in which the backward pass reads them.

use super::BLOCK;
use super::range::{Reach, exponentials};
use crate::rows::Row;
use crate::simd::{Real, Simd};

/// `[unit blocks][rows][BLOCK]`: for one block of units, all rows lie side by side. In the rows' own order they would
/// be `units` apart, which for powers of two is the same few sets of a cache.
#[derive(Debug, Default)]
pub(super) struct Panel<E> {
    data: Vec<E>,
    rows: usize,
}

impl<E: Real> Panel<E> {
    /// Becomes zeros, for rows of `units`.
    pub(super) fn reset(&mut self, rows: usize, units: usize) {
        self.data.clear();
        self.data
            .resize(units.div_ceil(BLOCK) * rows * BLOCK, E::ZERO);
        self.rows = rows;
    }

    /// Fills row `row` with `factor` times the [exponentials] of the row `from`, and raises the reach of each block of units.
    #[inline(always)]
    pub(super) fn fill_exponentials<S: Simd<E>>(
        &mut self,
        simd: S,
        row: usize,
        from: Row<E>,
        factor: E,
        reach: &mut [Reach],
    ) {
        let columns = self.data.chunks_exact_mut(self.rows * BLOCK);
        for (block, (column, reach)) in columns.zip(reach).enumerate() {
            let units = block * BLOCK..from.len().min((block + 1) * BLOCK);
            let to = &mut column[row * BLOCK..][..units.len()];
            *reach = (*reach).max(exponentials(simd, from.part(units), to));
            to.iter_mut().for_each(|to| *to = factor * *to);
        }
    }

    /// One block of units, `[rows][BLOCK]`.
    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[E] {
        &self.data[block * self.rows * BLOCK..(block + 1) * self.rows * BLOCK]
    }

    /// One block of units, `[rows][BLOCK]`.
    #[inline(always)]
    pub(super) fn block_mut(&mut self, block: usize) -> &mut [E] {
        &mut self.data[block * self.rows * BLOCK..(block + 1) * self.rows * BLOCK]
    }

    /// Adds `weight[u]` times row `row` to `to`.
    #[inline(always)]
    pub(super) fn add_row_to(&self, row: usize, weight: &[E], to: &mut [E]) {
        let columns = self.data.chunks_exact(self.rows * BLOCK);
        for ((column, weight), to) in columns.zip(weight.chunks(BLOCK)).zip(to.chunks_mut(BLOCK)) {
            let from = &column[row * BLOCK..(row + 1) * BLOCK];
            for ((to, weight), from) in to.iter_mut().zip(weight).zip(from) {
                *to += *weight * *from;
            }
        }
    }
}
