//! The gradients of one key head and a chunk of its keys.

use std::ops::Range;

use super::Attention;
use super::backward::Outputs;
use super::pack::{multiply_panels, pack_panels, padded};
use super::score::{BLOCK, Pass, Place, STRIDE, TILE, TileScore};
use super::tile::{Sight, Tile, tiles};
use super::upstream::Upstream;
use crate::simd::gemm::{Product, Start};
use crate::simd::{Job, MAX_LANES, Real, Simd};

/// A key head and the heads of the queries that share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub batch: usize,
    pub key_head: usize,
    pub group: usize,
}

impl Places {
    fn member(self, member: usize) -> Place {
        let Self {
            batch,
            key_head,
            group,
        } = self;
        Place {
            batch,
            head: key_head * group + member,
            key_head,
        }
    }
}

/// Where a task adds its gradients.
pub(super) struct Into<'a, E> {
    /// `[group, queries, query_size]`
    pub queries: &'a mut [E],
    /// `[keys of the chunk, key_size]`
    pub keys: &'a mut [E],
    /// `[keys of the chunk, value_size]`
    pub values: &'a mut [E],
    /// `[group, keys of the chunk]`, or empty.
    pub bias: &'a mut [E],
    pub shared: &'a mut [E],
}

pub(super) struct Task<'a, E: Real, T: TileScore<E>> {
    pub attention: &'a Attention<'a, E, T>,
    pub outputs: &'a Outputs<'a, E>,
    pub places: Places,
    pub chunk: Range<usize>,
    pub scratch: &'a mut Scratch<E, T>,
    pub into: Into<'a, E>,
}

pub(super) struct Scratch<E: Real, T: TileScore<E>> {
    keys: T::Keys,
    queries: T::Queries,
    upstream: Upstream<E>,
    /// The chunk's values in panels.
    values: Vec<E>,
    /// `[keys of the chunk, padded value_size]`
    value_gradient: Vec<E>,
    /// `[BLOCK, STRIDE]`: scores, then weights as the values see them.
    weights: Vec<E>,
    /// `[BLOCK, STRIDE]`: gradients of the weights, then of the scores.
    gradient: Vec<E>,
    /// Dropout factors of a row.
    kept: Vec<E>,
}

impl<E: Real, T: TileScore<E>> Default for Scratch<E, T> {
    fn default() -> Self {
        Self {
            keys: T::Keys::default(),
            queries: T::Queries::default(),
            upstream: Upstream::default(),
            values: Vec::new(),
            value_gradient: Vec::new(),
            weights: vec![E::ZERO; BLOCK * STRIDE],
            gradient: vec![E::ZERO; BLOCK * STRIDE],
            kept: vec![E::ONE; TILE + MAX_LANES],
        }
    }
}

impl<E: Real, T: TileScore<E>> Job<E> for Task<'_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let Self {
            attention, places, ..
        } = self;
        let score = attention.score;
        let sizes = score.sizes();
        let [.., value_size] = attention.values.shape();
        let value_stride = padded::<E, S>(value_size);
        let span = attention
            .mask
            .span(places.batch, 0..sizes.queries, sizes.keys);
        let start = span.start.max(self.chunk.start);
        let range = start - start % TILE..span.end.min(self.chunk.end);
        if range.is_empty() {
            return;
        }
        let scratch = &mut *self.scratch;
        score.pack_keys(
            simd,
            places.member(0),
            range.clone(),
            Pass::Backward,
            &mut scratch.keys,
        );
        let place = [places.batch, places.key_head];
        pack_panels(
            simd,
            &attention.values,
            place,
            range.clone(),
            &mut scratch.values,
        );
        scratch.value_gradient.clear();
        scratch
            .value_gradient
            .resize(range.len() * value_stride, E::ZERO);
        for member in 0..places.group {
            for start in (0..sizes.queries).step_by(BLOCK) {
                let block = start..sizes.queries.min(start + BLOCK);
                self.block(simd, member, block, &range);
            }
        }
        let scratch = &mut *self.scratch;
        let offset = range.start - self.chunk.start;
        let rows = offset..offset + range.len();
        let keys = &mut self.into.keys[rows.start * sizes.key_size..rows.end * sizes.key_size];
        score.add_key_gradient(simd, &mut scratch.keys, keys, self.into.shared);
        if value_size > 0 {
            let values = &mut self.into.values[rows.start * value_size..rows.end * value_size];
            let sums = scratch.value_gradient.chunks_exact(value_stride);
            for (to, from) in values.chunks_exact_mut(value_size).zip(sums) {
                for (to, &from) in to.iter_mut().zip(from) {
                    *to += from;
                }
            }
        }
    }
}

impl<E: Real, T: TileScore<E>> Task<'_, E, T> {
    /// Adds what a block of queries contributes.
    #[inline(always)]
    fn block<S: Simd<E>>(
        &mut self,
        simd: S,
        member: usize,
        queries: Range<usize>,
        range: &Range<usize>,
    ) {
        let Self {
            attention,
            outputs,
            places,
            ..
        } = *self;
        let scratch = &mut *self.scratch;
        let score = attention.score;
        let sizes = score.sizes();
        let place = places.member(member);
        let span = attention
            .mask
            .span(place.batch, queries.clone(), sizes.keys);
        let span = span.start.max(range.start)..span.end.min(range.end);
        if span.is_empty() {
            return;
        }
        score.pack_queries(
            simd,
            place,
            queries.clone(),
            Pass::Backward,
            &mut scratch.queries,
        );
        scratch
            .upstream
            .pack(simd, attention.unit(), outputs, place, queries.clone());
        for keys in tiles(span) {
            let tile = Tile {
                place,
                queries: queries.clone(),
                keys,
            };
            let sight = tile.sight(attention, sizes.keys);
            if sight == Sight::Nothing {
                continue;
            }
            scratch.tile(simd, attention, &tile, sight, range);
            if !self.into.bias.is_empty() {
                let start = member * self.chunk.len() + tile.keys.start - self.chunk.start;
                let bias = &mut self.into.bias[start..][..tile.keys.len()];
                for row in scratch.gradient.chunks_exact(STRIDE).take(queries.len()) {
                    for (bias, &gradient) in bias.iter_mut().zip(row) {
                        *bias += gradient;
                    }
                }
            }
        }
        let rows = member * sizes.queries + queries.start..member * sizes.queries + queries.end;
        let gradient =
            &mut self.into.queries[rows.start * sizes.query_size..rows.end * sizes.query_size];
        score.add_query_gradient(simd, &mut scratch.queries, gradient);
    }
}

impl<E: Real, T: TileScore<E>> Scratch<E, T> {
    /// One tile of one block.
    #[inline(always)]
    fn tile<S: Simd<E>>(
        &mut self,
        simd: S,
        attention: &Attention<E, T>,
        tile: &Tile,
        sight: Sight,
        range: &Range<usize>,
    ) {
        let score = attention.score;
        let [.., num_keys, value_size] = attention.values.shape();
        let value_stride = padded::<E, S>(value_size);
        let keys = tile.keys.clone();
        let rows = tile.queries.len();
        let (weights, gradient) = (&mut self.weights[..], &mut self.gradient[..]);
        score.scores(
            simd,
            &mut self.queries,
            &self.keys,
            keys.clone(),
            weights,
            STRIDE,
        );
        tile.complete(simd, attention, num_keys, sight, weights);
        let seen = tile.seen_rows(&self.upstream.non_finite, weights);
        let first = keys.start - range.start;
        let within = first..first + keys.len();
        let left = (&self.upstream.gradient[..], value_stride);
        multiply_panels(
            simd,
            rows,
            left,
            &self.values,
            value_size,
            within.clone(),
            gradient,
        );
        self.score_gradient(simd, attention, tile);
        let out = &mut self.value_gradient[first * value_stride..within.end * value_stride];
        let finite = if self.upstream.non_finite.is_empty() {
            &self.upstream.gradient
        } else {
            &self.upstream.finite
        };
        Product {
            sizes: [keys.len(), rows, value_stride],
            left: &self.weights,
            left_strides: [1, STRIDE],
            right: finite,
            right_stride: value_stride,
            out,
            out_stride: value_stride,
            start: Start::Sum,
        }
        .compute(simd);
        // What the product left out.
        for (&row, seen) in self.upstream.non_finite.iter().zip(seen.chunks(keys.len())) {
            let gradient = &self.upstream.gradient[row * value_stride..][..value_size];
            for key in (0..keys.len()).filter(|&key| seen[key]) {
                let weight = self.weights[row * STRIDE + key];
                let out = &mut self.value_gradient[(first + key) * value_stride..];
                for (out, &gradient) in out.iter_mut().zip(gradient) {
                    *out += weight * gradient;
                }
            }
        }
        score.backward(
            simd,
            &mut self.queries,
            &mut self.keys,
            keys,
            &self.gradient,
            STRIDE,
        );
    }

    /// From scores and gradients of the dropped weights to dropped weights and gradients of the scores. Of a hidden
    /// pair both are 0 whatever else there is.
    ///
    /// No weight is above 1, though the rounding of a very large log-sum-exp would have it so; `min` lets NaN pass.
    #[inline(always)]
    fn score_gradient<S: Simd<E>>(&mut self, simd: S, attention: &Attention<E, T>, tile: &Tile) {
        let whole = tile.keys.len().next_multiple_of(S::LANES);
        let Place { batch, head, .. } = tile.place;
        let lowest = simd.splat(-E::LARGEST);
        let unit = simd.splat(attention.unit());
        let zero = simd.zero();
        let rows = self
            .weights
            .chunks_exact_mut(STRIDE)
            .zip(self.gradient.chunks_exact_mut(STRIDE));
        let scalars = self.upstream.lse.iter().zip(&self.upstream.dot);
        for (((weights, gradient), (&[high, low], &dot)), query) in
            rows.zip(scalars).zip(tile.queries.clone())
        {
            let (high, low, dot) = (simd.splat(high), simd.splat(low), simd.splat(dot));
            let weights = weights[..whole].chunks_exact_mut(S::LANES);
            let vectors = weights.zip(gradient[..whole].chunks_exact_mut(S::LANES));
            if let Some(dropout) = attention.dropout {
                let scale = E::from_f64(dropout.scale());
                let kept = &mut self.kept[..whole];
                dropout.fill([batch, head, query], tile.keys.start, scale, kept);
                for ((weights, gradient), kept) in vectors.zip(kept.chunks_exact(S::LANES)) {
                    let score = simd.load(weights);
                    let kept = simd.load(kept);
                    let power = simd.sub(simd.sub(score, high), low);
                    let weight = simd.exp2(simd.mul(simd.min(zero, power), unit));
                    let difference = simd.sub(simd.mul(simd.load(gradient), kept), dot);
                    let hidden = simd.less(score, lowest);
                    simd.store(simd.select(hidden, zero, simd.mul(weight, kept)), weights);
                    simd.store(
                        simd.select(hidden, zero, simd.mul(weight, difference)),
                        gradient,
                    );
                }
            } else {
                for (weights, gradient) in vectors {
                    let score = simd.load(weights);
                    let power = simd.sub(simd.sub(score, high), low);
                    let weight = simd.exp2(simd.mul(simd.min(zero, power), unit));
                    let difference = simd.sub(simd.load(gradient), dot);
                    let hidden = simd.less(score, lowest);
                    simd.store(simd.select(hidden, zero, weight), weights);
                    simd.store(
                        simd.select(hidden, zero, simd.mul(weight, difference)),
                        gradient,
                    );
                }
            }
        }
    }
}
