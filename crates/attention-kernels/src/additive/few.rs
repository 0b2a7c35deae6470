//! Additive attention of few queries, such as a decoder's step has: every key and value is read once, nothing is
//! packed that is not packed already, and gradients go straight to where they belong.

use std::ops::Range;

use rayon::prelude::*;

use super::gradient::direct;
use super::pack::{PackedQueries, TILE, Weights, exponentials, pack_keys, packed_block_len};
use super::tile::{KeyBlock, Target, tile_scores};
use super::{AdditiveAttention, AdditiveAttentionGradients, BLOCK};
use crate::Rows;
use crate::mask::Visible;
use crate::simd::{Job, Level, Real, Simd};
use crate::softmax::softmax;
use crate::vectors::{add_scaled, dot};

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
    rows.with_min_len(TASK).for_each(|(head, (context, lse))| {
        let at = [head / heads, head % heads];
        let head = Head {
            problem,
            weights,
            at,
        };
        E::dispatch(level, Forward { head, context, lse });
    });
}

/// As [`AdditiveAttention::backward`].
pub(super) fn backward<E: Real>(
    problem: &AdditiveAttention<E>,
    weights: &Weights<E>,
    level: Level,
    context_gradient: Rows<E>,
    gradients: AdditiveAttentionGradients<E>,
) {
    let [batch, heads, num_queries, units] = problem.score.queries.shape();
    let [_, _, num_keys, value_size] = problem.values.shape();
    let mut partial_weights = vec![E::ZERO; batch * heads * units];
    gradients
        .queries
        .par_chunks_mut(num_queries * units)
        .zip(gradients.keys.par_chunks_mut(num_keys * units))
        .zip(gradients.values.par_chunks_mut(num_keys * value_size))
        .zip(partial_weights.par_chunks_mut(units))
        .enumerate()
        .with_min_len(TASK)
        .for_each(|(head, (((queries, keys), values), weight))| {
            let at = [head / heads, head % heads];
            let head = Head {
                problem,
                weights,
                at,
            };
            let gradients = AdditiveAttentionGradients {
                queries,
                keys,
                values,
                weight,
            };
            E::dispatch(
                level,
                Backward {
                    head,
                    context_gradient,
                    gradients,
                },
            );
        });
    for partial in partial_weights.chunks_exact(units) {
        for (to, from) in gradients.weight.iter_mut().zip(partial) {
            *to += *from;
        }
    }
}

/// One head of one example.
struct Head<'a, E> {
    problem: &'a AdditiveAttention<'a, E>,
    weights: &'a Weights<E>,
    at: [usize; 2],
}

/// The weights of some queries.
struct Attended<'a, E> {
    /// The keys that some query sees, and more: `first` is a multiple of [`BLOCK`].
    first: usize,
    /// `[queries, keys of the blocks]`: 0 where hidden.
    weights: Vec<E>,
    stride: usize,
    visible: Vec<Visible<'a>>,
}

impl<E: Real> Head<'_, E> {
    /// The weights of all queries of the head, and the logarithm of the sum of `e^score` for each.
    #[inline(always)]
    fn attend<S: Simd<E>>(&self, simd: S, mut lse: Option<&mut [E]>) -> Attended<'_, E> {
        let score = &self.problem.score;
        let [batch, head] = self.at;
        let [_, _, num_queries, _] = score.queries.shape();
        let [_, _, num_keys, _] = score.keys.shape();
        let span = score.mask.span(batch, 0..num_queries, num_keys);
        let blocks = span.start / BLOCK..span.end.div_ceil(BLOCK);
        let first = blocks.start * BLOCK;
        let stride = blocks.len() * BLOCK;
        let mut weights = vec![-E::INFINITY; num_queries * stride];
        self.scores(simd, &span, blocks, stride, &mut weights);
        let visible: Vec<Visible> = (0..num_queries)
            .map(|query| score.mask.visible(batch, head, query, num_keys))
            .collect();
        for (query, visible) in visible.iter().enumerate() {
            let row = &mut weights[query * stride..(query + 1) * stride];
            visible.hide(&(first..first + stride), row, -E::INFINITY);
            let sum = softmax(simd, row);
            if let Some(lse) = &mut lse {
                lse[query] = sum;
            }
        }
        Attended {
            first,
            weights,
            stride,
            visible,
        }
    }

    /// The scores of all queries with some blocks of keys, `[queries][stride]`.
    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        span: &Range<usize>,
        blocks: Range<usize>,
        stride: usize,
        scores: &mut [E],
    ) {
        let score = &self.problem.score;
        let [_, heads, num_queries, units] = score.queries.shape();
        let [_, _, num_keys, _] = score.keys.shape();
        let mut queries = PackedQueries::default();
        queries.pack(simd, &score.queries, self.at, 0..num_queries, self.weights);
        let block_len = packed_block_len(units);
        let (mut own, mut scratch) = (Vec::new(), Vec::new());
        if self.problem.packed_keys.is_none() {
            own.resize(block_len, E::ZERO);
            scratch.resize(BLOCK * units, E::ZERO);
        }
        let [batch, head] = self.at;
        let all = num_keys.div_ceil(BLOCK);
        let first_block = blocks.start;
        for block in blocks {
            let packed = match self.problem.packed_keys {
                Some(packed) => {
                    let index = (batch * heads + head) * all + block;
                    &packed[index * block_len..(index + 1) * block_len]
                }
                None => {
                    let at = [batch, head, block];
                    pack_keys(simd, &score.keys, at, span, &mut scratch, &mut own);
                    &own[..]
                }
            };
            let keys = KeyBlock::new(score.keys, self.at, block * BLOCK, packed);
            let column = (block - first_block) * BLOCK;
            let mut query = 0;
            while query < num_queries {
                let target = Target {
                    to: &mut scores[query * stride + column..],
                    stride,
                    width: BLOCK,
                    factor: self.weights.factor(),
                };
                query += tile_scores(simd, self.weights, &queries, query, &keys, target);
            }
        }
    }
}

impl<E: Real> Attended<'_, E> {
    /// Calls `f` with each visible key of a query and its column in the row of weights.
    #[inline(always)]
    fn visible_keys(&self, query: usize) -> impl Iterator<Item = (usize, usize)> {
        let visible = &self.visible[query];
        let keys = visible.range.clone().filter(|key| visible.sees(*key));
        keys.map(|key| (key, key - self.first))
    }

    fn row(&self, query: usize) -> &[E] {
        &self.weights[query * self.stride..(query + 1) * self.stride]
    }

    /// What the weights of a query are multiplied with.
    fn dropout(&self, head: &Head<E>, query: usize) -> Vec<E> {
        let mut factors = vec![E::ONE; self.stride];
        if let Some(dropout) = head.problem.dropout {
            dropout.factors([head.at[0], head.at[1], query], self.first, &mut factors);
        }
        factors
    }
}

struct Forward<'a, 'b, E> {
    head: Head<'a, E>,
    /// `[queries, value_size]`
    context: &'b mut [E],
    /// `[queries]`
    lse: &'b mut [E],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self { head, context, lse } = self;
        let values = &head.problem.values;
        let [.., value_size] = values.shape();
        let attended = head.attend(simd, Some(lse));
        for (query, context) in context.chunks_exact_mut(value_size).enumerate() {
            let factors = attended.dropout(&head, query);
            let weights = attended.row(query);
            context.fill(E::ZERO);
            for (key, column) in attended.visible_keys(query) {
                let weight = weights[column] * factors[column];
                add_scaled(
                    simd,
                    weight,
                    values.row(head.at[0], head.at[1], key),
                    context,
                );
            }
        }
    }
}

struct Backward<'a, 'b, E> {
    head: Head<'a, E>,
    context_gradient: Rows<'a, E>,
    /// Of this head alone.
    gradients: AdditiveAttentionGradients<'b, E>,
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            head,
            context_gradient,
            gradients,
        } = self;
        let [batch, index] = head.at;
        let values = &head.problem.values;
        let [_, _, num_keys, value_size] = values.shape();
        let mut attended = head.attend(simd, None);
        // In place of the weights, the gradients of the scores: ds = p (f dw - D), D = sum p f dw, dw = dC . v.
        for query in 0..attended.visible.len() {
            let gradient = context_gradient.row(batch, index, query);
            let factors = attended.dropout(&head, query);
            let weights = attended.row(query).to_vec();
            let mut slopes = vec![E::ZERO; weights.len()];
            let mut total = E::ZERO;
            for (key, column) in attended.visible_keys(query) {
                let value = values.row(batch, index, key);
                slopes[column] = factors[column] * dot(simd, gradient, value);
                total += weights[column] * slopes[column];
                let to = &mut gradients.values[key * value_size..(key + 1) * value_size];
                add_scaled(simd, weights[column] * factors[column], gradient, to);
            }
            let (first, stride) = (attended.first, attended.stride);
            let row = &mut attended.weights[query * stride..(query + 1) * stride];
            row.fill(E::ZERO);
            let visible = &attended.visible[query];
            for key in visible.range.clone().filter(|key| visible.sees(*key)) {
                row[key - first] = weights[key - first] * (slopes[key - first] - total);
            }
        }
        let AdditiveAttentionGradients {
            queries,
            keys,
            weight,
            ..
        } = gradients;
        let last = num_keys.min(attended.first + attended.stride);
        let slopes = Slopes {
            head: &head,
            keys: attended.first..last,
            gradient: &attended.weights,
            stride: attended.stride,
        };
        slopes.add(simd, queries, keys, weight);
    }
}

/// The gradients of scores, `[queries][stride]`; 0 where hidden.
struct Slopes<'a, E> {
    head: &'a Head<'a, E>,
    /// From a multiple of [`BLOCK`] on.
    keys: Range<usize>,
    gradient: &'a [E],
    stride: usize,
}

impl<E: Real> Slopes<'_, E> {
    /// Adds what they give the queries, keys and weight of the head; see `gradient.rs` for the formulas.
    ///
    /// One vector of units and one block of keys at a time: the sums over keys stay in registers, and the gradient of
    /// each key is read and written once.
    #[inline(always)]
    fn add<S: Simd<E>>(
        &self,
        simd: S,
        to_queries: &mut [E],
        to_keys: &mut [E],
        to_weight: &mut [E],
    ) {
        let score = &self.head.problem.score;
        let [batch, head] = self.head.at;
        let [_, _, num_queries, units] = score.queries.shape();
        // Whole vectors: what lies beyond the units comes to nothing.
        let padded = units.next_multiple_of(S::LANES);
        let mut queries = vec![E::ONE; num_queries * padded];
        let mut query_in_range = Vec::with_capacity(num_queries);
        for (query, to) in queries.chunks_exact_mut(padded).enumerate() {
            let from = score.queries.row(batch, head, query);
            query_in_range.push(exponentials(simd, from, &mut to[..units]));
            to.iter_mut().for_each(|x| *x = *x * E::from_f64(0.5));
        }
        let mut weights = vec![E::ZERO; padded];
        weights[..units].copy_from_slice(score.weight);
        let mut query_sums = vec![E::ZERO; num_queries * padded];
        let mut weight_sums = vec![E::ZERO; padded];
        let mut keys = vec![E::ONE; BLOCK * padded];
        for first in self.keys.clone().step_by(BLOCK) {
            let block = first..self.keys.end.min(first + BLOCK);
            let key_in_range = self.exponentials(simd, block.clone(), padded, &mut keys);
            for (query, in_range) in query_in_range.iter().enumerate() {
                let column = first - self.keys.start;
                let gradient = &self.gradient[query * self.stride + column..][..block.len()];
                let fast = *in_range && key_in_range;
                let query_row = score.queries.row(batch, head, query);
                for unit in (0..padded).step_by(S::LANES) {
                    let at = query * padded + unit;
                    let exponentials = simd.load(&queries[at..]);
                    let weight = simd.load(&weights[unit..]);
                    let mut query_sum = simd.load(&query_sums[at..]);
                    let mut weight_sum = simd.load(&weight_sums[unit..]);
                    for (lane, g) in gradient.iter().enumerate() {
                        if *g == E::ZERO {
                            continue;
                        }
                        let key = simd.load(&keys[lane * padded + unit..]);
                        let half = simd.splat(E::from_f64(0.5));
                        let x = simd.mul_add(exponentials, key, half);
                        let mut negative_tanh = simd.reciprocal_less_one(x);
                        if !fast {
                            let key_row = score.keys.row(batch, head, first + lane);
                            negative_tanh = direct(simd, query_row, key_row, unit, negative_tanh);
                        }
                        let g = simd.splat(*g);
                        let product = simd.mul(g, negative_tanh);
                        let term = simd.neg_mul_add(product, negative_tanh, g);
                        query_sum = simd.add(query_sum, term);
                        weight_sum = simd.add(weight_sum, product);
                        let to = &mut to_keys[(first + lane) * units..(first + lane + 1) * units];
                        add_product(simd, weight, term, &mut to[unit..]);
                    }
                    simd.store(query_sum, &mut query_sums[at..]);
                    simd.store(weight_sum, &mut weight_sums[unit..]);
                }
            }
        }
        let rows = to_queries.chunks_exact_mut(units);
        for (to, sums) in rows.zip(query_sums.chunks_exact(padded)) {
            for ((to, weight), sum) in to.iter_mut().zip(score.weight).zip(sums) {
                *to += *weight * *sum;
            }
        }
        for (to, sum) in to_weight.iter_mut().zip(weight_sums) {
            *to += -sum;
        }
    }

    /// `e^(2k)` of a block of keys, `[keys][padded]`, from the packed keys if there are any: transposing is cheaper
    /// than computing them again. Returns whether the fast path takes all.
    #[inline(always)]
    fn exponentials<S: Simd<E>>(
        &self,
        simd: S,
        block: Range<usize>,
        padded: usize,
        to: &mut [E],
    ) -> bool {
        let score = &self.head.problem.score;
        let [batch, head] = self.head.at;
        let [_, heads, num_keys, units] = score.keys.shape();
        let Some(packed) = self.head.problem.packed_keys else {
            let mut in_range = true;
            for (key, to) in block.zip(to.chunks_exact_mut(padded)) {
                in_range &= exponentials(simd, score.keys.row(batch, head, key), &mut to[..units]);
            }
            return in_range;
        };
        let block_len = packed_block_len(units);
        let index = (batch * heads + head) * num_keys.div_ceil(BLOCK) + block.start / BLOCK;
        let packed = &packed[index * block_len..(index + 1) * block_len];
        let whole = units - units % S::LANES;
        for unit in (0..whole).step_by(S::LANES) {
            for lane in (0..BLOCK).step_by(S::LANES) {
                let (from, to) = (
                    &packed[unit * BLOCK + lane..],
                    &mut to[lane * padded + unit..],
                );
                simd.transpose(from, BLOCK, to, padded);
            }
        }
        for unit in whole..units {
            for lane in 0..BLOCK {
                to[lane * padded + unit] = packed[unit * BLOCK + lane];
            }
        }
        packed[units * BLOCK] == E::ONE
    }
}

/// `to += a * b`, for as many numbers as `to` has.
#[inline(always)]
fn add_product<E: Real, S: Simd<E>>(simd: S, a: S::V, b: S::V, to: &mut [E]) {
    if to.len() >= S::LANES {
        simd.store(simd.mul_add(a, b, simd.load(to)), to);
    } else {
        simd.store_partial(simd.mul_add(a, b, simd.load_partial(to)), to);
    }
}
