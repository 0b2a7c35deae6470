//! Context and log-sum-exp.

use std::ops::Range;

use rayon::prelude::*;

use super::pool::{Pool, equal_parts, parts};
use super::running::Scratch;
use super::score::{BLOCK, Pass, Place, STRIDE, Sizes, TILE, TileScore};
use super::tile::{Sight, Tile, tiles};
use super::{Attention, FiniteRows, padded};
use crate::simd::gemm::{Product, Start};
use crate::simd::{Job, Level, Real, Simd};

/// Queries in a task: a few blocks.
const TASK: usize = 4 * BLOCK;

/// Writes the context `[batch, heads, queries, value_size]` and the log-sum-exp `[batch, heads, queries]`; that of a
/// row that sees no key is minus infinity.
///
/// The number of threads changes no bit: the numbers of a row depend on its block alone.
pub(crate) fn forward<E: Real, T: TileScore<E>>(
    level: Level,
    attention: &Attention<E, T>,
    context: &mut [E],
    lse: &mut [E],
) {
    let sizes = attention.check_forward(context, lse);
    let Sizes {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        ..
    } = sizes;
    let [.., value_size] = attention.values.shape();
    if batch * heads * queries == 0 {
        return;
    }
    let group = heads / key_heads;
    let (packs, scratches) = (Pool::default(), Pool::default());
    let groups = equal_parts(context, batch * key_heads)
        .into_par_iter()
        .zip(equal_parts(lse, batch * key_heads));
    groups.enumerate().for_each(|(index, (context, lse))| {
        let (batch, key_head) = (index / key_heads, index % key_heads);
        let place = |member| Place {
            batch,
            head: key_head * group + member,
            key_head,
        };
        packs.with(|packed: &mut Packed<E, T>| {
            let range = attention.mask.span(batch, 0..queries, keys);
            let range = range.start - range.start % TILE..range.end;
            E::dispatch(
                level,
                Pack {
                    attention,
                    place: place(0),
                    range,
                    packed,
                },
            );
            let packed = &*packed;
            let tasks = tasks(queries, group, value_size, context, lse);
            let run =
                |(member, queries, context, lse): (usize, Range<usize>, &mut [E], &mut [E])| {
                    scratches.with(|scratch| {
                        let place = place(member);
                        let task = Task {
                            attention,
                            place,
                            queries,
                            packed,
                            scratch,
                            context,
                            lse,
                        };
                        E::dispatch(level, task);
                    });
                };
            if tasks.len() == 1 {
                tasks.into_iter().for_each(run);
            } else {
                tasks.into_par_iter().for_each(run);
            }
        });
    });
}

type TaskSlices<'a, E> = (usize, Range<usize>, &'a mut [E], &'a mut [E]);

/// The member of the group, queries, context and log-sum-exp of each task.
fn tasks<'a, E>(
    queries: usize,
    group: usize,
    value_size: usize,
    context: &'a mut [E],
    lse: &'a mut [E],
) -> Vec<TaskSlices<'a, E>> {
    let ranges = || {
        let starts =
            (0..group).flat_map(|member| (0..queries).step_by(TASK).map(move |i| (member, i)));
        starts.map(|(member, start)| (member, start..queries.min(start + TASK)))
    };
    let context = parts(context, ranges().map(|(_, range)| range.len() * value_size));
    let lse = parts(lse, ranges().map(|(_, range)| range.len()));
    let slices = ranges().zip(context).zip(lse);
    slices
        .map(|(((member, range), context), lse)| (member, range, context, lse))
        .collect()
}

/// The keys and values of one head.
struct Packed<E: Real, T: TileScore<E>> {
    keys: T::Keys,
    values: FiniteRows<E>,
}

impl<E: Real, T: TileScore<E>> Default for Packed<E, T> {
    fn default() -> Self {
        Self {
            keys: T::Keys::default(),
            values: FiniteRows::default(),
        }
    }
}

struct Pack<'a, E: Real, T: TileScore<E>> {
    attention: &'a Attention<'a, E, T>,
    place: Place,
    range: Range<usize>,
    packed: &'a mut Packed<E, T>,
}

impl<E: Real, T: TileScore<E>> Job<E> for Pack<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            attention,
            place,
            range,
            packed,
        } = self;
        let Place {
            batch, key_head, ..
        } = place;
        let score = attention.score;
        score.pack_keys(simd, place, range.clone(), Pass::Forward, &mut packed.keys);
        packed
            .values
            .pack(simd, &attention.values, [batch, key_head], range);
    }
}

struct Task<'a, E: Real, T: TileScore<E>> {
    attention: &'a Attention<'a, E, T>,
    place: Place,
    queries: Range<usize>,
    packed: &'a Packed<E, T>,
    scratch: &'a mut Scratch<E, T>,
    context: &'a mut [E],
    lse: &'a mut [E],
}

impl<E: Real, T: TileScore<E>> Job<E> for Task<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let [.., value_size] = self.attention.values.shape();
        let first = self.queries.start;
        for start in self.queries.clone().step_by(BLOCK) {
            let block = start..self.queries.end.min(start + BLOCK);
            self.stream(simd, block.clone());
            let rows = start - first..block.end - first;
            let context = &mut self.context[rows.start * value_size..rows.end * value_size];
            let lse = &mut self.lse[rows];
            let scale = self
                .attention
                .dropout
                .map_or(1.0, |dropout| dropout.scale());
            self.scratch
                .finish(simd, value_size, E::from_f64(scale), context, lse);
        }
    }
}

impl<E: Real, T: TileScore<E>> Task<'_, E, T> {
    /// Runs a block of queries over all tiles of keys that it sees.
    #[inline(always)]
    fn stream<S: Simd<E>>(&mut self, simd: S, queries: Range<usize>) {
        let Self {
            attention,
            place,
            packed,
            ..
        } = *self;
        let scratch = &mut *self.scratch;
        let score = attention.score;
        let num_keys = score.sizes().keys;
        let [.., value_size] = attention.values.shape();
        let value_stride = padded::<E, S>(value_size);
        let rows = queries.len();
        scratch.start(attention.unit(), rows, value_stride);
        let span = attention.mask.span(place.batch, queries.clone(), num_keys);
        if span.is_empty() {
            return;
        }
        score.pack_queries(
            simd,
            place,
            queries.clone(),
            Pass::Forward,
            &mut scratch.queries,
        );
        for tile in tiles(span) {
            let tile = Tile {
                place,
                queries: queries.clone(),
                keys: tile,
            };
            let sight = tile.sight(attention, num_keys);
            if sight == Sight::Nothing {
                continue;
            }
            let keys = tile.keys.clone();
            let scores = &mut scratch.tile[..];
            score.scores(
                simd,
                &mut scratch.queries,
                &packed.keys,
                keys.clone(),
                scores,
                STRIDE,
            );
            tile.complete(simd, attention, num_keys, sight, scores);
            let infinite = tile.listed(&packed.values);
            let seen = tile.seen_columns(&infinite, scores);
            scratch.softmax(simd, rows, keys.len());
            if let Some(dropout) = attention.dropout {
                scratch.drop(simd, &tile, &dropout);
            }
            let place = [place.batch, place.key_head];
            let values = packed
                .values
                .from(&attention.values, place, keys.start, value_stride);
            Product {
                sizes: [rows, keys.len(), value_stride],
                left: &scratch.tile,
                left_strides: [STRIDE, 1],
                right: values,
                right_stride: value_stride,
                out: &mut scratch.context,
                out_stride: value_stride,
                start: Start::Scaled(&scratch.factors),
            }
            .compute(simd);
            // What the product left out.
            let mut wide = Vec::new();
            for (&key, seen) in infinite.iter().zip(seen.chunks(rows)) {
                let value = attention.values.row(place[0], place[1], keys.start + key);
                let value = value.read(&mut wide);
                for row in (0..rows).filter(|&row| seen[row]) {
                    let weight = scratch.tile[row * STRIDE + key];
                    let context = &mut scratch.context[row * value_stride..];
                    for (context, &value) in context.iter_mut().zip(value) {
                        *context += weight * value;
                    }
                }
            }
        }
    }
}
