//! The scores of all pairs.

use std::ops::Range;

use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::threads::{for_each, for_each_with};
use cpu_kernels::{Buffer, Real};

use super::inputs::{AdditiveScoreInputs, OPERATION};
use crate::additive::blocks::BlockScores;
use crate::additive::pack::{HeadKeys, PackedQueries, UnitWeights, packed_block_len};
use crate::heads::HeadPair;
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
        let AdditiveScoreInputs { queries, keys, .. } = *self.inputs;
        let mask = self.inputs.mask;
        let [_, _, num_keys, _] = keys.shape();
        let at = self.head.query;
        let mut packed_queries = PackedQueries::default();
        let rows = self.queries.clone().map(|query| queries.row(at, query));
        packed_queries.pack(simd, rows, self.weights);
        let of_query = |query| mask.of_query(at, query, num_keys);
        let masks: Vec<_> = self.queries.map(of_query).collect();
        BlockScores {
            weights: self.weights,
            queries: &packed_queries,
            keys,
            at: self.head.key,
            first: 0,
            packed: self.packed,
            masks: if mask.is_none() { &[] } else { &masks },
            to: self.scores,
            stride: num_keys,
            width: num_keys,
            factor: self.weights.factor(),
        }
        .compute(simd);
    }
}
