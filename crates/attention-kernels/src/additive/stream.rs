//! Additive scores in the streaming kernels.

use std::ops::Range;

use super::gradient::{Side, add_gradients};
use super::pack::{PackedQueries, Weights, pack_keys, packed_block_len};
use super::tile::{KeyBlock, Target, tile_scores};
use super::{AdditiveScore, BLOCK};
use crate::simd::{Real, Simd};
use crate::stream::{Pass, Place, Sizes, TileScore};

/// The score, and what is made of its weights and keys once.
pub(super) struct Streamed<'a, E> {
    pub(super) score: AdditiveScore<'a, E>,
    pub(super) weights: Weights<E>,
    /// The keys of all heads as [`AdditiveScore::packed_keys`] returns them, if they are there already.
    pub(super) packed: Option<&'a [E]>,
}

/// Some keys of one head.
#[derive(Default)]
pub(super) struct Keys<'a, E> {
    at: [usize; 2],
    /// The keys, from a multiple of [`BLOCK`] on.
    range: Range<usize>,
    /// Their packed blocks: those of the whole problem, or the ones made here.
    packed: Option<&'a [E]>,
    own: Vec<E>,
    scratch: Vec<E>,
    /// Backward only.
    side: Side<'a, E>,
    weight_sums: Vec<E>,
}

/// A block of queries.
#[derive(Default)]
pub(super) struct Queries<'a, E> {
    packed: PackedQueries<'a, E>,
    /// Backward only.
    side: Side<'a, E>,
}

impl<'a, E: Real> TileScore<E> for Streamed<'a, E> {
    type Keys = Keys<'a, E>;
    type Queries = Queries<'a, E>;

    fn sizes(&self) -> Sizes {
        let [batch, heads, queries, units] = self.score.queries.shape();
        let [_, _, keys, _] = self.score.keys.shape();
        Sizes {
            batch,
            heads,
            key_heads: heads,
            queries,
            keys,
            query_size: units,
            key_size: units,
            shared: units,
        }
    }

    #[inline(always)]
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        place: Place,
        range: Range<usize>,
        pass: Pass,
        keys: &mut Self::Keys,
    ) {
        let [_, heads, num_queries, units] = self.score.queries.shape();
        let [_, _, num_keys, _] = self.score.keys.shape();
        let at = [place.batch, place.key_head];
        keys.at = at;
        keys.range = range.clone();
        let block_len = packed_block_len(units);
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        if let Some(packed) = self.packed {
            let all = num_keys.div_ceil(BLOCK);
            let head = at[0] * heads + at[1];
            let of_head = &packed[head * all * block_len..(head + 1) * all * block_len];
            keys.packed = Some(&of_head[blocks.start * block_len..blocks.end * block_len]);
        } else {
            keys.packed = None;
            let visible = self.score.mask.span(at[0], 0..num_queries, num_keys);
            keys.own.resize(blocks.len() * block_len, E::ZERO);
            keys.scratch.resize(BLOCK * units, E::ZERO);
            for (block, to) in blocks.zip(keys.own.chunks_exact_mut(block_len)) {
                let at = [at[0], at[1], block];
                pack_keys(simd, &self.score.keys, at, &visible, &mut keys.scratch, to);
            }
        }
        if pass == Pass::Backward {
            keys.side.fill_keys(simd, &self.score.keys, at, range);
            keys.weight_sums.clear();
            keys.weight_sums.resize(units, E::ZERO);
        }
    }

    #[inline(always)]
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        place: Place,
        range: Range<usize>,
        pass: Pass,
        queries: &mut Self::Queries,
    ) {
        let at = [place.batch, place.head];
        let from = &self.score.queries;
        queries
            .packed
            .pack(simd, from, at, range.clone(), &self.weights);
        if pass == Pass::Backward {
            queries.side.fill_queries(simd, from, at, range);
        }
    }

    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Self::Queries,
        keys: &Self::Keys,
        tile: Range<usize>,
        out: &mut [E],
        stride: usize,
    ) {
        let [_, _, _, units] = self.score.keys.shape();
        let block_len = packed_block_len(units);
        let packed = keys.packed.unwrap_or(&keys.own);
        let log2_e = std::f64::consts::LOG2_E;
        let factor = E::from_f64(self.weights.largest.to_f64() * -2.0 * log2_e);
        for first in tile.clone().step_by(BLOCK) {
            let block = (first - keys.range.start) / BLOCK;
            let packed = &packed[block * block_len..(block + 1) * block_len];
            let block = KeyBlock::new(self.score.keys, keys.at, first, packed);
            let column = first - tile.start;
            let mut query = 0;
            while query < queries.packed.len() {
                let target = Target {
                    to: &mut out[query * stride + column..],
                    stride,
                    width: BLOCK,
                    factor,
                };
                query += tile_scores(simd, &self.weights, &queries.packed, query, &block, target);
            }
        }
    }

    #[inline(always)]
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Self::Queries,
        keys: &mut Self::Keys,
        tile: Range<usize>,
        gradient: &[E],
        stride: usize,
    ) {
        let tile = tile.start - keys.range.start..tile.end - keys.range.start;
        let sides = [&mut queries.side, &mut keys.side];
        let weight = &mut keys.weight_sums;
        add_gradients::<E, S, true>(simd, sides, tile, gradient, stride, weight);
    }

    #[inline(always)]
    fn add_query_gradient<S: Simd<E>>(
        &self,
        _simd: S,
        queries: &mut Self::Queries,
        gradient: &mut [E],
    ) {
        queries.side.add_gradients_to(self.score.weight, gradient);
    }

    #[inline(always)]
    fn add_key_gradient<S: Simd<E>>(
        &self,
        _simd: S,
        keys: &mut Self::Keys,
        gradient: &mut [E],
        shared: &mut [E],
    ) {
        keys.side.add_gradients_to(self.score.weight, gradient);
        for (to, from) in shared.iter_mut().zip(&keys.weight_sums) {
            *to += *from;
        }
    }
}
