//! The scores of some queries with several blocks of keys.

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::pack::{PackedQueries, UnitWeights, packed_block_len};
use super::tile::{KeyBlock, Target, tile_scores};
use crate::mask::QueryMask;
use crate::tiles::{KEY_LANES, query_tiles};
use crate::{HeadIndex, Rows};

/// Computes the scores of packed queries and packed keys of one head.
pub(super) struct BlockScores<'a, E> {
    pub weights: &'a UnitWeights<E>,
    pub queries: &'a PackedQueries<'a, E>,
    pub keys: Rows<'a, E>,
    pub at: HeadIndex,
    /// The first key: a multiple of [`KEY_LANES`].
    pub first: usize,
    /// The packed blocks from that key on.
    pub packed: &'a [E],
    /// The mask of each query, which sets scores to 0; empty if masked scores do not matter.
    pub masks: &'a [QueryMask<'a>],
    /// The scores times `factor` are written to `to[query * stride..][..width]`.
    pub to: &'a mut [E],
    pub stride: usize,
    pub width: usize,
    pub factor: E,
}

impl<E: Real> BlockScores<'_, E> {
    #[inline(always)]
    pub(super) fn compute<S: Simd<E>>(self, simd: S) {
        let masks = self.masks;
        let [.., units] = self.keys.shape();
        let blocks = self.packed.chunks_exact(packed_block_len(units));
        for (column, packed) in (0..self.width).step_by(KEY_LANES).zip(blocks) {
            let first = self.first + column;
            let width = KEY_LANES.min(self.width - column);
            let block_keys = first..first + width;
            let block = KeyBlock::new(self.keys, self.at, first, packed);
            for tile in query_tiles(self.queries.len()) {
                let to = &mut self.to[tile.start * self.stride + column..];
                let of_tile = match masks.is_empty() {
                    true => masks,
                    false => &masks[tile.clone()],
                };
                if !masks.is_empty() && !of_tile.iter().any(|mask| mask.meets(&block_keys)) {
                    for row in to.chunks_mut(self.stride).take(of_tile.len()) {
                        row[..width].fill(E::ZERO);
                    }
                    continue;
                }
                let target = Target {
                    to: &mut *to,
                    stride: self.stride,
                    width,
                    factor: self.factor,
                };
                tile_scores(simd, self.weights, self.queries, tile, &block, target);
                for (row, mask) in to.chunks_mut(self.stride).zip(of_tile) {
                    mask.fill(&block_keys, &mut row[..width], E::ZERO);
                }
            }
        }
    }
}
