//! Context and log-sum-exp.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::gemm::{Product, Start};
use cpu_kernels::simd::{Block, Job, Level, Simd};
use cpu_kernels::slices::{equal_parts, take};
use cpu_kernels::threads::for_each;

use super::attention::{Attention, LogSumExp};
use super::pack::{FiniteRows, padded};
use super::pool::Pool;
use super::running::RunningSoftmax;
use super::score::{Phase, TileScore};
use super::tile::{Coverage, Tile, tiles};
use crate::heads::{HeadIndex, HeadPair};
use crate::slices::add_multiple;
use crate::tiles::{KEY_STRIDE, KEY_TILE, QUERY_BLOCK, TASK_QUERIES};

/// Writes the context `[batch, heads, queries, value_size]` and the log-sum-exp `[batch, heads, queries]`.
///
/// The number of threads changes no bit: the results of a query depend on its block alone.
pub(crate) fn forward<E: Real, T: TileScore<E>>(
    level: Level,
    attention: &Attention<E, T>,
    context: &mut [E],
    lse: &mut [LogSumExp],
) {
    attention.check_forward(context, lse);
    if attention.is_decode {
        return T::decode_forward(level, attention, context, lse);
    }
    let sizes = attention.score.sizes();
    let (heads, queries) = (sizes.heads, sizes.queries);
    let [.., value_size] = attention.values.shape();
    if heads.count() * queries == 0 {
        return;
    }
    let (packs, scratches) = (Pool::default(), Pool::default());
    let contexts = equal_parts(context, heads.key_count()).into_iter();
    let groups = contexts.zip(equal_parts(lse, heads.key_count()));
    for_each(groups.enumerate(), |(index, (mut context, lse))| {
        let key = HeadIndex::nth(index, heads.key_heads);
        let span = attention.mask.span(key.batch, 0..queries, sizes.keys);
        let mut packed = packs.take();
        let pack = Pack {
            attention,
            at: key,
            range: span.start - span.start % KEY_TILE..span.end,
            packed: &mut packed,
        };
        E::dispatch(level, pack);
        let mut tasks = Vec::new();
        for (member, lse) in lse.chunks_mut(queries).enumerate() {
            let query = heads.member(key, member);
            for (task, lse) in lse.chunks_mut(TASK_QUERIES).enumerate() {
                let first = task * TASK_QUERIES;
                tasks.push(Task {
                    attention,
                    head: HeadPair { query, key },
                    queries: first..first + lse.len(),
                    packed: &packed,
                    scratches: &scratches,
                    context: take(&mut context, lse.len() * value_size),
                    lse,
                });
            }
        }
        for_each(tasks.into_iter(), |task| E::dispatch(level, task));
        packs.put(packed);
    });
}

/// The keys and values of one head.
#[derive(Default)]
struct Packed<K, E> {
    keys: K,
    values: FiniteRows<E>,
}

struct Pack<'a, E: Real, T: TileScore<E>> {
    attention: &'a Attention<'a, E, T>,
    /// The key head.
    at: HeadIndex,
    range: Range<usize>,
    packed: &'a mut Packed<T::Keys, E>,
}

impl<E: Real, T: TileScore<E>> Job<E> for Pack<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Packed { keys, values } = self.packed;
        let (score, range) = (self.attention.score, self.range.clone());
        score.pack_keys(simd, self.at, range, Phase::Forward, keys);
        values.pack(simd, &self.attention.values, self.at, self.range);
    }
}

/// The buffers that a task fills anew for each block of queries.
struct Scratch<E: Real, T: TileScore<E>> {
    queries: T::Queries,
    softmax: RunningSoftmax<E>,
}

impl<E: Real, T: TileScore<E>> Default for Scratch<E, T> {
    fn default() -> Self {
        Self {
            queries: T::Queries::default(),
            softmax: RunningSoftmax::default(),
        }
    }
}

/// Some queries of one head, with all keys.
struct Task<'a, E: Real, T: TileScore<E>> {
    attention: &'a Attention<'a, E, T>,
    head: HeadPair,
    queries: Range<usize>,
    packed: &'a Packed<T::Keys, E>,
    scratches: &'a Pool<Scratch<E, T>>,
    /// `[queries, value_size]`
    context: &'a mut [E],
    /// `[queries]`
    lse: &'a mut [LogSumExp],
}

impl<E: Real, T: TileScore<E>> Job<E> for Task<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (attention, head, packed) = (self.attention, self.head, self.packed);
        let score = attention.score;
        let [_, _, num_keys, value_size] = attention.values.shape();
        let value_stride = padded::<E, S>(value_size);
        let scale = attention.dropout_scale();
        let mut scratch = self.scratches.take();
        let Scratch { queries, softmax } = &mut scratch;
        let mut context = self.context;
        let blocks = self.queries.clone().step_by(QUERY_BLOCK);
        for (start, lse) in blocks.zip(self.lse.chunks_mut(QUERY_BLOCK)) {
            let block = start..start + lse.len();
            let sink = attention.sink(head.query);
            softmax.start(attention.unit(), sink, block.len(), value_stride);
            let batch = head.query.batch;
            let span = attention.mask.span(batch, block.clone(), num_keys);
            if !span.is_empty() {
                score.pack_queries(simd, head.query, block.clone(), Phase::Forward, queries);
            }
            for keys in tiles(span) {
                let tile = Tile {
                    head,
                    queries: block.clone(),
                    keys,
                };
                let coverage = tile.coverage(attention);
                if coverage == Coverage::None {
                    continue;
                }
                let keys = tile.keys.clone();
                let scores = &mut softmax.tile;
                score.scores(simd, queries, &packed.keys, keys.clone(), scores);
                tile.complete(simd, attention, coverage, scores, [&mut [], &mut []]);
                let non_finite = tile.non_finite_columns(&packed.values);
                let attended = tile.attended_columns(&non_finite, &softmax.tile);
                softmax.weights(simd, block.len(), keys.len());
                if let Some(dropout) = attention.dropout {
                    softmax.apply_dropout(simd, &tile, &dropout);
                }
                let shape = [block.len(), value_stride];
                Product {
                    sizes: [block.len(), keys.len(), value_stride],
                    left: &softmax.tile,
                    left_strides: [KEY_STRIDE, 1],
                    right: packed.values.from(&attention.values, keys.start),
                    right_stride: value_stride,
                    out: Block::new(&mut softmax.context, shape, value_stride),
                    start: Start::Scaled(&softmax.factors),
                }
                .compute(simd);
                // The values that the product left out.
                let mut wide = Vec::new();
                for (&key, attended) in non_finite.iter().zip(attended.chunks(block.len())) {
                    let value = attention.values.row(head.key, keys.start + key);
                    let value = value.read(&mut wide);
                    for row in (0..block.len()).filter(|&row| attended[row]) {
                        let weight = softmax.tile[row * KEY_STRIDE + key];
                        let context = &mut softmax.context[row * value_stride..];
                        add_multiple(weight, value, context);
                    }
                }
            }
            let context = take(&mut context, block.len() * value_size);
            softmax.finish(simd, value_size, scale, context, lse);
        }
        self.scratches.put(scratch);
    }
}
