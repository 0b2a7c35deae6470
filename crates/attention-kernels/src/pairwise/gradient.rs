//! The gradients of a tile of scores. The units are the lanes here, as in the gradients of additive scores.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};

use super::PairwiseTerm;
use crate::tiles::{KEY_STRIDE, QUERY_TILE, UNIT_LANES, query_tiles};
use crate::unit_panel::UnitPanel;
use crate::{HeadIndex, Rows};

/// Some queries or keys of one head, and the sums that become their gradients.
#[derive(Debug, Default)]
pub(super) struct Operand<E> {
    rows: UnitPanel<E>,
    /// `sum g f'`
    sums: UnitPanel<E>,
    count: usize,
}

impl<E: Real> Operand<E> {
    /// Replaces the content by rows, with sums of zero.
    pub(super) fn fill(&mut self, from: &Rows<E>, at: HeadIndex, range: Range<usize>) {
        let [.., units] = from.shape();
        let blocks = units.div_ceil(UNIT_LANES);
        self.count = range.len();
        self.rows.reset(self.count, blocks);
        self.sums.reset(self.count, blocks);
        for (index, row) in range.enumerate() {
            for (block, to) in self.rows.row_mut(index).enumerate() {
                let units = block * UNIT_LANES..units.min((block + 1) * UNIT_LANES);
                let to = &mut to[..units.len()];
                from.row(at, row).part(units).copy_to(to);
            }
        }
    }

    /// Adds `weight` times the sums to the gradients of the rows, `[rows][units]`.
    pub(super) fn add_gradients_to(&self, weight: &[E], gradients: &mut [E]) {
        for (row, to) in gradients.chunks_exact_mut(weight.len().max(1)).enumerate() {
            self.sums.add_row_to(row, weight, to);
        }
    }
}

/// Adds the contributions of the gradients of a tile's scores; compiled once for each instruction set.
pub(super) struct TileGradients<'a, E, T> {
    pub term: &'a T,
    pub queries: &'a mut Operand<E>,
    pub keys: &'a mut Operand<E>,
    /// The sums of the gradient of the weight, `[units]`; empty if not requested.
    pub weight_sums: &'a mut [E],
    /// The keys of the tile.
    pub tile: Range<usize>,
    /// Rows of [`KEY_STRIDE`]; 0 where masked.
    pub gradient: &'a [E],
}

impl<E: Real, T: PairwiseTerm> Job<E> for TileGradients<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        if self.weight_sums.is_empty() {
            self.all_tiles::<S, false>(simd);
        } else {
            self.all_tiles::<S, true>(simd);
        }
    }
}

impl<E: Real, T: PairwiseTerm> TileGradients<'_, E, T> {
    #[inline(always)]
    fn all_tiles<S: Simd<E>, const WEIGHT: bool>(&mut self, simd: S) {
        for block in 0..self.queries.rows.blocks() {
            let mut total = [E::ZERO; UNIT_LANES];
            for tile in query_tiles(self.queries.count) {
                if tile.len() == QUERY_TILE {
                    self.tile::<S, WEIGHT, QUERY_TILE>(simd, block, tile.start, &mut total);
                } else {
                    self.tile::<S, WEIGHT, 1>(simd, block, tile.start, &mut total);
                }
            }
            if WEIGHT {
                let sums = self.weight_sums[block * UNIT_LANES..].iter_mut();
                sums.zip(total).for_each(|(sum, total)| *sum += total);
            }
        }
    }

    /// One block of units of `Q` queries with all keys of the tile. A pair whose gradient is 0 adds nothing, whatever
    /// it holds.
    #[inline(always)]
    fn tile<S: Simd<E>, const WEIGHT: bool, const Q: usize>(
        &mut self,
        simd: S,
        block: usize,
        query: usize,
        total: &mut [E; UNIT_LANES],
    ) {
        let len = self.tile.len();
        let gradients: [&[E]; Q] =
            std::array::from_fn(|q| &self.gradient[(query + q) * KEY_STRIDE..][..len]);
        let of_queries = query * UNIT_LANES..(query + Q) * UNIT_LANES;
        let of_keys = self.tile.start * UNIT_LANES..self.tile.end * UNIT_LANES;
        for lane in (0..UNIT_LANES).step_by(S::LANES) {
            let rows = &self.queries.rows.block(block)[of_queries.clone()];
            let queries: [S::V; Q] =
                std::array::from_fn(|q| simd.load(&rows[q * UNIT_LANES + lane..]));
            let mut query_sums = [simd.zero(); Q];
            let mut weight_sum = simd.zero();
            let key_rows = self.keys.rows.block(block)[of_keys.clone()].chunks_exact(UNIT_LANES);
            let sum_rows = &mut self.keys.sums.block_mut(block)[of_keys.clone()];
            let sum_rows = sum_rows.chunks_exact_mut(UNIT_LANES);
            for (j, (key, key_sum)) in key_rows.zip(sum_rows).enumerate() {
                let key = simd.load(&key[lane..]);
                let mut sum = simd.load(&key_sum[lane..]);
                for q in 0..Q {
                    let gradient = gradients[q][j];
                    if gradient == E::ZERO {
                        continue;
                    }
                    let gradient = simd.splat(gradient);
                    let [by_query, by_key] = self.term.derivatives(simd, queries[q], key);
                    query_sums[q] = simd.mul_add(gradient, by_query, query_sums[q]);
                    sum = simd.mul_add(gradient, by_key, sum);
                    if WEIGHT {
                        let value = self.term.value(simd, queries[q], key);
                        weight_sum = simd.mul_add(gradient, value, weight_sum);
                    }
                }
                simd.store(sum, &mut key_sum[lane..]);
            }
            let to = &mut self.queries.sums.block_mut(block)[of_queries.clone()];
            for (q, sum) in query_sums.into_iter().enumerate() {
                let to = &mut to[q * UNIT_LANES + lane..];
                simd.store(simd.add(simd.load(to), sum), to);
            }
            let to = &mut total[lane..];
            simd.store(simd.add(simd.load(to), weight_sum), to);
        }
    }
}
