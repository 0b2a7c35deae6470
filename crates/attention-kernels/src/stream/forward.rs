//! Context and log-sum-exp.

use std::ops::Range;

use rayon::prelude::*;

use super::pool::{Pool, equal_parts, parts};
use super::score::{BLOCK, Pass, Place, STRIDE, Sizes, TILE, TileScore};
use super::tile::{Sight, Tile, tiles};
use super::{Attention, FiniteRows, padded};
use crate::Dropout;
use crate::simd::gemm::{Product, Start};
use crate::simd::{Job, Level, MAX_LANES, Real, Simd};

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

struct Scratch<E: Real, T: TileScore<E>> {
    queries: T::Queries,
    /// `[BLOCK, STRIDE]`: scores, then weights before their normalisation.
    tile: Vec<E>,
    /// Of the scores in the tile.
    unit: E,
    /// `[BLOCK]`: running maxima of the scores.
    maxima: Vec<E>,
    /// `[BLOCK]`: what the exponents of the tile are relative to.
    references: Vec<E>,
    /// `[BLOCK]`: what the sums so far are multiplied with.
    factors: Vec<E>,
    /// `[BLOCK, LANES]`: running sums, a sum for each lane.
    sums: Vec<E>,
    /// `[BLOCK, padded value_size]`: running weighted sums of values.
    context: Vec<E>,
    /// Dropout factors of a row.
    kept: Vec<E>,
}

impl<E: Real, T: TileScore<E>> Default for Scratch<E, T> {
    fn default() -> Self {
        Self {
            queries: T::Queries::default(),
            tile: vec![E::ZERO; BLOCK * STRIDE],
            unit: E::ONE,
            maxima: vec![E::ZERO; BLOCK.next_multiple_of(MAX_LANES)],
            references: vec![E::ZERO; BLOCK.next_multiple_of(MAX_LANES)],
            factors: vec![E::ZERO; BLOCK.next_multiple_of(MAX_LANES)],
            sums: vec![E::ZERO; BLOCK * MAX_LANES],
            context: Vec::new(),
            kept: vec![E::ZERO; TILE],
        }
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
        scratch.unit = attention.unit();
        scratch.maxima.fill(-E::INFINITY);
        scratch.sums.fill(E::ZERO);
        scratch.context.clear();
        scratch.context.resize(rows * value_stride, E::ZERO);
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
            for (&key, seen) in infinite.iter().zip(seen.chunks(rows)) {
                let value = attention.values.row(place[0], place[1], keys.start + key);
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

impl<E: Real, T: TileScore<E>> Scratch<E, T> {
    /// Turns the scores of a tile into weights `2^(unit (s - m))`, adds them to the sums, and leaves in `factors` what the
    /// growth of the maxima multiplies the earlier sums with: `2^(unit (m before - m))`.
    ///
    /// The difference is taken first, exactly where it matters: the product of a large maximum and the unit rounds.
    ///
    /// While a row has seen no key its maximum is minus infinity; 0 in its place makes weights and factor 0.
    #[inline(always)]
    fn softmax<S: Simd<E>>(&mut self, simd: S, rows: usize, columns: usize) {
        let whole = columns.next_multiple_of(S::LANES);
        let lowest = simd.splat(-E::INFINITY);
        let unit = simd.splat(self.unit);
        for (row, largest) in self
            .tile
            .chunks_exact(STRIDE)
            .zip(&mut self.factors[..rows])
        {
            let mut most = lowest;
            for from in row[..whole].chunks_exact(S::LANES) {
                most = simd.max(simd.load(from), most);
            }
            *largest = simd.largest(most);
        }
        let maxima = self.maxima.chunks_exact_mut(S::LANES);
        let references = self.references.chunks_exact_mut(S::LANES);
        let factors = self.factors.chunks_exact_mut(S::LANES);
        for ((maxima, references), factors) in maxima.zip(references).zip(factors) {
            let before = simd.load(maxima);
            let now = simd.max(before, simd.load(factors));
            simd.store(now, maxima);
            let reference = simd.select(simd.less(lowest, now), now, simd.zero());
            simd.store(reference, references);
            let growth = simd.mul(simd.sub(before, reference), unit);
            simd.store(simd.exp2(growth), factors);
        }
        let sums = self.sums.chunks_exact_mut(S::LANES);
        let scalars = self.references.iter().zip(&self.factors);
        let lines = self.tile.chunks_exact_mut(STRIDE).zip(sums).zip(scalars);
        for ((row, sums), (&reference, &factor)) in lines.take(rows) {
            let reference = simd.splat(reference);
            let mut sum = simd.mul(simd.load(sums), simd.splat(factor));
            for x in row[..whole].chunks_exact_mut(S::LANES) {
                let weight = simd.exp2(simd.mul(simd.sub(simd.load(x), reference), unit));
                sum = simd.add(sum, weight);
                simd.store(weight, x);
            }
            simd.store(sum, sums);
        }
    }

    /// Sets dropped weights to 0. The sums keep them, and the others are scaled at the end.
    #[inline(always)]
    fn drop<S: Simd<E>>(&mut self, simd: S, tile: &Tile, dropout: &Dropout) {
        let Place { batch, head, .. } = tile.place;
        let whole = tile.keys.len().next_multiple_of(S::LANES);
        for (row, query) in self.tile.chunks_exact_mut(STRIDE).zip(tile.queries.clone()) {
            dropout.fill(
                [batch, head, query],
                tile.keys.start,
                E::ONE,
                &mut self.kept[..whole],
            );
            let vectors = row
                .chunks_exact_mut(S::LANES)
                .zip(self.kept[..whole].chunks_exact(S::LANES));
            for (weights, kept) in vectors {
                simd.store(simd.mul(simd.load(weights), simd.load(kept)), weights);
            }
        }
    }

    /// Divides by the sums: `context / l` and `m + ln l`; 0 and minus infinity where no key was seen.
    #[inline(always)]
    fn finish<S: Simd<E>>(
        &self,
        simd: S,
        value_size: usize,
        scale: E,
        context: &mut [E],
        lse: &mut [E],
    ) {
        let stride = padded::<E, S>(value_size);
        for (i, lse) in lse.iter_mut().enumerate() {
            let sum = simd.sum(simd.load(&self.sums[i * S::LANES..]));
            let factor = if sum == E::ZERO { E::ZERO } else { scale / sum };
            // The backward pass amplifies the error of this number: it is rounded once.
            let most = self.maxima[i].to_f64() * self.unit.to_f64() * std::f64::consts::LN_2;
            let natural = most + sum.to_f64().ln();
            *lse = if sum == E::ZERO {
                -E::INFINITY
            } else {
                E::from_f64(natural)
            };
            let factor = simd.splat(factor);
            let from = &self.context[i * stride..(i + 1) * stride];
            let to = &mut context[i * value_size..(i + 1) * value_size];
            for (from, to) in from.chunks_exact(S::LANES).zip(to.chunks_mut(S::LANES)) {
                let context = simd.mul(simd.load(from), factor);
                if to.len() == S::LANES {
                    simd.store(context, to);
                } else {
                    simd.store_partial(context, to);
                }
            }
        }
    }
}
