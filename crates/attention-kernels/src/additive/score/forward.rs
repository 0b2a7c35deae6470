//! The scores of all pairs.

use std::ops::Range;

use rayon::prelude::*;

use super::AdditiveScore;
use crate::additive::BLOCK;
use crate::additive::pack::{PackedQueries, Weights, pack_keys, packed_block_len};
use crate::additive::tile::{KeyBlock, Target, tile_scores};
use crate::mask::Visible;
use crate::simd::{Job, Level, Real, Simd};
use crate::{Mask, Rows};

/// Queries in a task: with 256 hidden units, their exponentials take 32 KiB in `f32`, half of a small second-level
/// cache, beside a block of keys.
const TASK_QUERIES: usize = 32;

pub(in crate::additive) fn forward<E: Real>(
    problem: &AdditiveScore<E>,
    level: Level,
    scores: &mut [E],
) {
    problem.check();
    let [batch, heads, num_queries, _] = problem.queries.shape();
    let [_, _, num_keys, _] = problem.keys.shape();
    let expected = batch * heads * num_queries * num_keys;
    assert!(
        scores.len() == expected,
        "AdditiveScore: scores expected {expected} numbers, got {}",
        scores.len()
    );
    if expected == 0 {
        return;
    }
    let weights = Weights::new(problem.weight);
    let packed = pack_all(&problem.keys, &problem.mask, num_queries, level);
    // A task: some of the queries of one head.
    let tasks = num_queries.div_ceil(TASK_QUERIES);
    let mut rows: Vec<(usize, usize, &mut [E])> = Vec::with_capacity(batch * heads * tasks);
    for (head, scores) in scores.chunks_mut(num_queries * num_keys).enumerate() {
        let chunks = scores.chunks_mut(TASK_QUERIES * num_keys);
        rows.extend(
            chunks
                .enumerate()
                .map(|(chunk, rows)| (head, chunk * TASK_QUERIES, rows)),
        );
    }
    rows.into_par_iter().for_each(|(head, first, scores)| {
        let packed_len = packed.len() / (batch * heads);
        E::dispatch(
            level,
            Forward {
                problem,
                weights: &weights,
                packed: &packed[head * packed_len..(head + 1) * packed_len],
                at: [head / heads, head % heads],
                queries: first..first + scores.len() / num_keys,
                scores,
            },
        );
    });
}

/// The keys as [`AdditiveScore::forward`] reads them, `[batch, heads, blocks, packed block]`.
pub(in crate::additive) fn pack_all<E: Real>(
    keys: &Rows<E>,
    mask: &Mask,
    num_queries: usize,
    level: Level,
) -> Vec<E> {
    let [batch, heads, num_keys, units] = keys.shape();
    mask.check([batch, heads, num_queries, num_keys]);
    let blocks = num_keys.div_ceil(BLOCK);
    let mut packed = vec![E::ZERO; batch * heads * blocks * packed_block_len(units)];
    let tasks = packed.par_chunks_mut(packed_block_len(units)).enumerate();
    tasks.with_min_len(4).for_each_init(
        || vec![E::ZERO; BLOCK * units],
        |scratch, (index, to)| {
            let (head, block) = (index / blocks, index % blocks);
            let at = [head / heads, head % heads, block];
            let visible = mask.span(at[0], 0..num_queries, num_keys);
            E::dispatch(
                level,
                Pack {
                    keys,
                    at,
                    visible,
                    scratch,
                    to,
                },
            );
        },
    );
    packed
}

struct Pack<'a, E> {
    keys: &'a Rows<'a, E>,
    at: [usize; 3],
    visible: Range<usize>,
    scratch: &'a mut [E],
    to: &'a mut [E],
}

impl<E: Real> Job<E> for Pack<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        pack_keys(
            simd,
            self.keys,
            self.at,
            &self.visible,
            self.scratch,
            self.to,
        );
    }
}

/// The scores of some queries of one head.
struct Forward<'a, 'b, E> {
    problem: &'a AdditiveScore<'a, E>,
    weights: &'a Weights<E>,
    /// The packed keys of the head.
    packed: &'a [E],
    at: [usize; 2],
    queries: Range<usize>,
    /// `[queries, keys]`
    scores: &'b mut [E],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let [batch, head] = self.at;
        let [_, _, num_keys, units] = self.problem.keys.shape();
        let mut queries = PackedQueries::default();
        let rows = self.queries.clone();
        queries.pack(simd, &self.problem.queries, self.at, rows, self.weights);
        let visible: Vec<Visible> = self
            .queries
            .clone()
            .map(|query| self.problem.mask.visible(batch, head, query, num_keys))
            .collect();
        let masked = !self.problem.mask.is_none();
        let packed_len = packed_block_len(units);
        for (block, packed) in self.packed.chunks_exact(packed_len).enumerate() {
            let first = block * BLOCK;
            let block_keys = first..num_keys.min(first + BLOCK);
            let keys = KeyBlock::new(self.problem.keys, self.at, first, packed);
            let mut query = 0;
            while query < visible.len() {
                let count = queries.tile_len(query);
                let is_hidden = |visible: &Visible| !visible.meets(&block_keys);
                if masked && visible[query..query + count].iter().all(is_hidden) {
                    for row in self
                        .scores
                        .chunks_exact_mut(num_keys)
                        .skip(query)
                        .take(count)
                    {
                        row[block_keys.clone()].fill(E::ZERO);
                    }
                    query += count;
                    continue;
                }
                let target = Target {
                    to: &mut self.scores[query * num_keys + first..],
                    stride: num_keys,
                    width: block_keys.len(),
                    factor: self.weights.factor(),
                };
                tile_scores(simd, self.weights, &queries, query, &keys, target);
                if masked {
                    let rows = self.scores[query * num_keys..].chunks_exact_mut(num_keys);
                    for (row, visible) in rows.zip(&visible[query..query + count]) {
                        visible.hide(&block_keys, &mut row[block_keys.clone()], E::ZERO);
                    }
                }
                query += count;
            }
        }
    }
}
