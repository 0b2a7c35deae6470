//! The scores of a block of queries with a panel of keys.

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};

use super::PairwiseTerm;
use crate::stream::{PackedRows, Panel};
use crate::tiles::{KEY_STRIDE, QUERY_TILE, query_tiles};

/// `out[i, j] = sum_u weight[u] f(queries[i, u], panel[u, j])`, compiled once for each instruction set.
pub(super) struct PanelScores<'a, E, T> {
    pub term: &'a T,
    pub weight: &'a [E],
    pub queries: &'a PackedRows<E>,
    pub panel: Panel<'a, E>,
    /// Rows of [`KEY_STRIDE`].
    pub out: &'a mut [E],
}

impl<E: Real, T: PairwiseTerm> Job<E> for PanelScores<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let mut column = 0;
        while column + 2 * S::LANES <= self.panel.columns {
            self.column::<S, 2>(simd, column);
            column += 2 * S::LANES;
        }
        if column < self.panel.columns {
            self.column::<S, 1>(simd, column);
        }
    }
}

impl<E: Real, T: PairwiseTerm> PanelScores<'_, E, T> {
    /// All queries with `N` vectors of keys.
    #[inline(always)]
    fn column<S: Simd<E>, const N: usize>(&mut self, simd: S, column: usize) {
        for tile in query_tiles(self.queries.count) {
            if tile.len() == QUERY_TILE {
                self.tile::<S, QUERY_TILE, N>(simd, tile.start, column);
            } else {
                self.tile::<S, 1, N>(simd, tile.start, column);
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd<E>, const Q: usize, const N: usize>(
        &mut self,
        simd: S,
        query: usize,
        column: usize,
    ) {
        let PackedRows { stride, data, .. } = self.queries;
        let queries: [&[E]; Q] =
            std::array::from_fn(|q| &data[(query + q) * stride..][..self.weight.len()]);
        let mut sums = [[simd.zero(); N]; Q];
        let rows = self.panel.data.chunks_exact(self.panel.width);
        for (unit, (&weight, row)) in self.weight.iter().zip(rows).enumerate() {
            let weight = simd.splat(weight);
            let row = &row[column..column + N * S::LANES];
            let keys: [S::V; N] = std::array::from_fn(|n| simd.load(&row[n * S::LANES..]));
            for (sums, query) in sums.iter_mut().zip(queries) {
                let query = simd.splat(query[unit]);
                for (sum, key) in sums.iter_mut().zip(keys) {
                    *sum = simd.mul_add(weight, self.term.value(simd, query, key), *sum);
                }
            }
        }
        for (q, sums) in sums.into_iter().enumerate() {
            let row = &mut self.out[(query + q) * KEY_STRIDE + column..];
            for (row, sum) in row.chunks_exact_mut(S::LANES).zip(sums) {
                simd.store(sum, row);
            }
        }
    }
}
