//! Additive attention of few queries, such as a decoder's step has: every key and value is read once, nothing is
//! packed that is not packed already, and gradients go straight to where they belong.

mod backward;
mod slopes;

use std::ops::Range;

use rayon::prelude::*;

use super::pack::{PackedQueries, TILE, Weights, pack_keys, packed_block_len};
use super::tile::{KeyBlock, Target, tile_scores};
use super::{AdditiveAttention, BLOCK};
use crate::listed::weighted_sum;
use crate::mask::Visible;
use crate::simd::{Job, Level, Real, Simd};
use crate::softmax::softmax;

pub(super) use backward::backward;

/// Up to this many queries are few: a tile of queries shares the loads of the keys.
pub(super) const FEW: usize = TILE;

/// Heads in a task at least: a head of a decoder's step takes a few microseconds.
const TASK: usize = 4;

/// As [`AdditiveAttention::forward`].
pub(super) fn forward<E: Real>(
    problem: &AdditiveAttention<E>,
    weights: &Weights<E>,
    level: Level,
    context: &mut [E],
    lse: &mut [E],
) {
    let [_, heads, num_queries, _] = problem.score.queries.shape();
    let [.., value_size] = problem.values.shape();
    let rows = context.par_chunks_mut(num_queries * value_size);
    let rows = rows.zip(lse.par_chunks_mut(num_queries)).enumerate();
    rows.with_min_len(TASK)
        .for_each_init(Scratch::default, |scratch, (head, (context, lse))| {
            let at = [head / heads, head % heads];
            let head = Head {
                problem,
                weights,
                at,
            };
            let job = Forward {
                head,
                scratch,
                context,
                lse,
            };
            E::dispatch(level, job);
        });
}

/// One head of one example.
struct Head<'a, E> {
    problem: &'a AdditiveAttention<'a, E>,
    weights: &'a Weights<E>,
    at: [usize; 2],
}

/// What a thread needs for each head anew.
#[derive(Default)]
struct Scratch<'a, E> {
    queries: PackedQueries<'a, E>,
    /// A block of keys, and the same packed.
    key_block: Vec<E>,
    packed: Vec<E>,
    attended: Attended<'a, E>,
    listed: Listed<E>,
    slopes: slopes::Scratch<E>,
    /// A row of the context's gradient, if it has to be widened.
    upstream: Vec<E>,
}

/// The weights of some queries.
#[derive(Default)]
struct Attended<'a, E> {
    /// The keys that some query sees, and more: `first` is a multiple of [`BLOCK`].
    first: usize,
    /// `[queries, keys of the blocks]`: 0 where hidden.
    weights: Vec<E>,
    stride: usize,
    visible: Vec<Visible<'a>>,
}

impl<'a, E: Real> Head<'a, E> {
    /// A block of this head's keys, if they were packed before.
    fn packed_block(&self, block: usize) -> Option<&[E]> {
        let [_, heads, num_keys, units] = self.problem.score.keys.shape();
        let block_len = packed_block_len(units);
        let head = self.at[0] * heads + self.at[1];
        let index = head * num_keys.div_ceil(BLOCK) + block;
        let packed = self.problem.packed_keys?;
        Some(&packed[index * block_len..(index + 1) * block_len])
    }

    /// The weights of all queries of the head, to `scratch.attended`, and the logarithm of the sum of `e^score` for
    /// each.
    #[inline(always)]
    fn attend<S: Simd<E>>(&self, simd: S, scratch: &mut Scratch<'a, E>, mut lse: Option<&mut [E]>) {
        let score = &self.problem.score;
        let [batch, head] = self.at;
        let [_, _, num_queries, _] = score.queries.shape();
        let [_, _, num_keys, _] = score.keys.shape();
        let span = score.mask.span(batch, 0..num_queries, num_keys);
        let blocks = span.start / BLOCK..span.end.div_ceil(BLOCK);
        let first = blocks.start * BLOCK;
        let stride = blocks.len() * BLOCK;
        scratch.attended.first = first;
        scratch.attended.stride = stride;
        scratch
            .attended
            .weights
            .resize(num_queries * stride, E::ZERO);
        self.scores(simd, &span, blocks, scratch);
        let Attended {
            weights, visible, ..
        } = &mut scratch.attended;
        visible.clear();
        let rows = 0..num_queries;
        visible.extend(rows.map(|query| score.mask.visible(batch, head, query, num_keys)));
        for (query, visible) in visible.iter().enumerate() {
            let row = &mut weights[query * stride..(query + 1) * stride];
            visible.hide(&(first..first + stride), row, -E::INFINITY);
            let sum = softmax(simd, row);
            if let Some(lse) = &mut lse {
                lse[query] = sum;
            }
        }
    }

    /// The scores of all queries with some blocks of keys, `[queries][stride]`, to `scratch.attended`.
    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        span: &Range<usize>,
        blocks: Range<usize>,
        scratch: &mut Scratch<'a, E>,
    ) {
        let Scratch {
            queries,
            key_block,
            packed,
            attended,
            ..
        } = scratch;
        let score = &self.problem.score;
        let [_, _, num_queries, units] = score.queries.shape();
        queries.pack(simd, &score.queries, self.at, 0..num_queries, self.weights);
        if self.problem.packed_keys.is_none() {
            packed.resize(packed_block_len(units), E::ZERO);
            key_block.resize(BLOCK * units, E::ZERO);
        }
        let [batch, head] = self.at;
        for (column, block) in (0..).step_by(BLOCK).zip(blocks) {
            let packed = match self.packed_block(block) {
                Some(packed) => packed,
                None => {
                    let at = [batch, head, block];
                    pack_keys(simd, &score.keys, at, span, key_block, packed);
                    &packed[..]
                }
            };
            let keys = KeyBlock::new(score.keys, self.at, block * BLOCK, packed);
            let mut query = 0;
            while query < num_queries {
                let target = Target {
                    to: &mut attended.weights[query * attended.stride + column..],
                    stride: attended.stride,
                    width: BLOCK,
                    factor: self.weights.factor(),
                };
                query += tile_scores(simd, self.weights, queries, query, &keys, target);
            }
        }
    }
}

impl<E: Real> Attended<'_, E> {
    fn row(&self, query: usize) -> &[E] {
        &self.weights[query * self.stride..(query + 1) * self.stride]
    }

    /// Lists the keys that a query sees, their weights, and what dropout multiplies those with.
    #[inline(always)]
    fn list(&self, head: &Head<E>, query: usize, listed: &mut Listed<E>) {
        let visible = &self.visible[query];
        listed.keys.clear();
        let keys = visible.range.clone().filter(|key| visible.sees(*key));
        listed.keys.extend(keys);
        let pick = |from: &[E], to: &mut Vec<E>| {
            to.clear();
            to.extend(listed.keys.iter().map(|key| from[key - self.first]));
        };
        pick(self.row(query), &mut listed.weights);
        match head.problem.dropout {
            None => {
                listed.factors.clear();
                listed.factors.resize(listed.keys.len(), E::ONE);
            }
            Some(dropout) => {
                listed.row.resize(self.stride, E::ZERO);
                let at = [head.at[0], head.at[1], query];
                dropout.factors(at, self.first, &mut listed.row);
                pick(&listed.row, &mut listed.factors);
            }
        }
    }
}

/// The keys that one query sees, and a number of each kind for each of them.
#[derive(Default)]
struct Listed<E> {
    keys: Vec<usize>,
    weights: Vec<E>,
    factors: Vec<E>,
    /// The gradients of the weights.
    slopes: Vec<E>,
    /// Factors of hidden keys too.
    row: Vec<E>,
}

impl<E: Real> Listed<E> {
    /// The weights, after dropout.
    fn drop_weights(&mut self) {
        for (weight, factor) in self.weights.iter_mut().zip(&self.factors) {
            *weight = *weight * *factor;
        }
    }
}

struct Forward<'a, 'b, E> {
    head: Head<'a, E>,
    scratch: &'b mut Scratch<'a, E>,
    /// `[queries, value_size]`
    context: &'b mut [E],
    /// `[queries]`
    lse: &'b mut [E],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            head,
            scratch,
            context,
            lse,
        } = self;
        let values = &head.problem.values;
        let [.., value_size] = values.shape();
        head.attend(simd, scratch, Some(lse));
        let Scratch {
            attended, listed, ..
        } = scratch;
        context.fill(E::ZERO);
        for (query, context) in context.chunks_exact_mut(value_size).enumerate() {
            attended.list(&head, query, listed);
            listed.drop_weights();
            let Listed { keys, weights, .. } = &*listed;
            weighted_sum(simd, keys, weights, values, head.at, E::ONE, context);
        }
    }
}
