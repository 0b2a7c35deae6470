//! The scores of all pairs.

use std::ops::Range;

use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::threads::{for_each, for_each_with};
use cpu_kernels::{Buffer, Real};

use super::inputs::{AdditiveScoreInputs, OPERATION};
use crate::additive::pack::{HeadKeys, PackedQueries, UnitWeights, packed_block_len, query_tiles};
use crate::additive::tile::{KeyBlock, Target, tile_scores};
use crate::heads::HeadPair;
use crate::mask::QueryMask;
use crate::tiles::{KEY_LANES, PACKED_BLOCKS, SCORE_QUERIES};
use crate::{HeadIndex, Mask, Rows};

/// As [`AdditiveScoreInputs::forward`].
pub(crate) fn forward<E: Real>(inputs: &AdditiveScoreInputs<E>, level: Level, scores: &mut [E]) {
    let heads = inputs.check(OPERATION);
    let [_, _, num_queries, units] = inputs.queries.shape();
    let [_, _, num_keys, _] = inputs.keys.shape();
    let shape = [heads.batch, heads.heads, num_queries, num_keys];
    inputs.mask.check(shape);
    check_len(OPERATION, "scores", shape, scores.len());
    if scores.is_empty() {
        return;
    }
    let weights = UnitWeights::new(inputs.weight);
    let packed = packed_keys(inputs.keys, inputs.mask, num_queries, level);
    let packed_len = num_keys.div_ceil(KEY_LANES) * packed_block_len(units);
    let mut tasks = Vec::with_capacity(heads.count() * num_queries.div_ceil(SCORE_QUERIES));
    for (index, scores) in scores.chunks_mut(num_queries * num_keys).enumerate() {
        let head = heads.nth(index);
        let first = head.key.position(heads.key_heads) * packed_len;
        for (task, scores) in scores.chunks_mut(SCORE_QUERIES * num_keys).enumerate() {
            let first_query = task * SCORE_QUERIES;
            tasks.push(Forward {
                inputs,
                weights: &weights,
                packed: &packed[first..first + packed_len],
                head,
                queries: first_query..first_query + scores.len() / num_keys,
                scores,
            });
        }
    }
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
}

/// As [`AdditiveScoreInputs::packed_keys`], `[batch, key_heads, blocks, packed block]`.
pub(crate) fn packed_keys<E: Real>(
    keys: Rows<E>,
    mask: Mask,
    num_queries: usize,
    level: Level,
) -> Buffer<E> {
    let [batch, key_heads, num_keys, units] = keys.shape();
    mask.check_grouped([batch, key_heads, num_queries, num_keys]);
    let blocks = num_keys.div_ceil(KEY_LANES);
    let len = batch * key_heads * blocks * packed_block_len(units);
    let mut packed = Buffer::for_overwrite(len);
    let tasks = packed.chunks_mut(packed_block_len(units)).enumerate();
    for_each_with(tasks, PACKED_BLOCKS, Vec::new, |scratch, (index, to)| {
        let at = HeadIndex::nth(index / blocks, key_heads);
        let pack = Pack {
            keys: HeadKeys {
                rows: keys,
                at,
                attended: mask.span(at.batch, 0..num_queries, num_keys),
            },
            block: index % blocks,
            scratch,
            to,
        };
        E::dispatch(level, pack);
    });
    packed
}

/// A block of keys.
struct Pack<'a, E> {
    keys: HeadKeys<'a, E>,
    block: usize,
    scratch: &'a mut Vec<E>,
    to: &'a mut [E],
}

impl<E: Real> Job<E> for Pack<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        self.keys.pack(simd, self.block, self.scratch, self.to);
    }
}

/// The scores of some queries of one head.
struct Forward<'a, 'b, E> {
    inputs: &'a AdditiveScoreInputs<'a, E>,
    weights: &'a UnitWeights<E>,
    /// The packed keys of the head.
    packed: &'a [E],
    head: HeadPair,
    queries: Range<usize>,
    /// `[queries, keys]`
    scores: &'b mut [E],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let AdditiveScoreInputs {
            queries,
            keys,
            mask,
            ..
        } = self.inputs;
        let [_, _, num_keys, units] = keys.shape();
        let at = self.head.query;
        let mut packed_queries = PackedQueries::default();
        let rows = self.queries.clone().map(|query| queries.row(at, query));
        packed_queries.pack(simd, rows, self.weights);
        let masks: Vec<QueryMask> = self
            .queries
            .map(|query| mask.of_query(at, query, num_keys))
            .collect();
        let is_masked = !mask.is_none();
        let packed_blocks = self.packed.chunks_exact(packed_block_len(units));
        for (block, packed) in packed_blocks.enumerate() {
            let first = block * KEY_LANES;
            let block_keys = first..num_keys.min(first + KEY_LANES);
            let block = KeyBlock::new(*keys, self.head.key, first, packed);
            for tile in query_tiles(masks.len()) {
                let masks = &masks[tile.clone()];
                let scores = &mut self.scores[tile.start * num_keys..tile.end * num_keys];
                if is_masked && !masks.iter().any(|mask| mask.meets(&block_keys)) {
                    for row in scores.chunks_exact_mut(num_keys) {
                        row[block_keys.clone()].fill(E::ZERO);
                    }
                    continue;
                }
                let target = Target {
                    to: &mut scores[first..],
                    stride: num_keys,
                    width: block_keys.len(),
                    factor: self.weights.factor(),
                };
                tile_scores(simd, self.weights, &packed_queries, tile, &block, target);
                if is_masked {
                    for (row, mask) in scores.chunks_exact_mut(num_keys).zip(masks) {
                        mask.fill(&block_keys, &mut row[block_keys.clone()], E::ZERO);
                    }
                }
            }
        }
    }
}
