//! The gradients of one key head and a chunk of its keys.

use std::ops::Range;

use cpu_kernels::simd::gemm::{Product, Start};
use cpu_kernels::simd::{Block, Job, MAX_LANES, Simd};
use cpu_kernels::slices::add;
use cpu_kernels::{Buffer, Real};

use super::attention::{Attention, AttentionOutputs, weight};
use super::bias_sums::BiasSums;
use super::context_gradient::ContextGradient;
use super::pack::{Panels, padded};
use super::pool::Pool;
use super::score::{Phase, TileScore, Wanted};
use super::tile::{Coverage, Tile, tiles};
use crate::heads::{HeadIndex, HeadPair};
use crate::score_mod::through;
use crate::slices::add_multiple;
use crate::soft_cap::through_soft_cap;
use crate::tiles::{KEY_STRIDE, KEY_TILE, QUERY_BLOCK};

/// The requested gradients of a task, to add to.
pub(super) struct GradOutputs<'a, E> {
    /// `[group, queries, size]`
    pub queries: Option<&'a mut [E]>,
    /// `[keys of the chunk, size]`
    pub keys: Option<&'a mut [E]>,
    /// `[keys of the chunk, value_size]`
    pub values: Option<&'a mut [E]>,
}

/// A task's contribution to the gradients that several tasks add to; empty if not requested.
#[derive(Default)]
pub(super) struct Partial<E> {
    pub biases: BiasSums<E>,
    /// `[shared]`
    pub shared: Buffer<E>,
}

pub(super) struct Task<'a, E: Real, T: TileScore<E>> {
    pub attention: &'a Attention<'a, E, T>,
    pub outputs: &'a AttentionOutputs<'a, E>,
    /// The key head.
    pub key: HeadIndex,
    pub chunk: Range<usize>,
    pub scratches: &'a Pool<Scratch<E, T>>,
    pub gradients: GradOutputs<'a, E>,
    pub wanted: Wanted,
}

/// The buffers that a task fills anew for each block of queries.
pub(super) struct Scratch<E: Real, T: TileScore<E>> {
    keys: T::Keys,
    queries: T::Queries,
    context_gradient: ContextGradient<E>,
    /// The values of the chunk.
    values: Panels<E>,
    /// `[keys of the chunk, padded value_size]`
    value_gradient: Buffer<E>,
    /// `[QUERY_BLOCK, KEY_STRIDE]`: scores, then the weights that multiply the values.
    weights: Buffer<E>,
    /// `[QUERY_BLOCK, KEY_STRIDE]`: gradients of the weights, then of the scores.
    gradient: Buffer<E>,
    /// `[QUERY_BLOCK, KEY_STRIDE]`: the derivatives of the soft-cap, if there is one.
    slopes: Buffer<E>,
    /// `[QUERY_BLOCK, KEY_STRIDE]`: the scores before the user's function, if there is one.
    before: Buffer<E>,
    /// Dropout factors of a row.
    kept: Vec<E>,
}

impl<E: Real, T: TileScore<E>> Default for Scratch<E, T> {
    fn default() -> Self {
        Self {
            keys: T::Keys::default(),
            queries: T::Queries::default(),
            context_gradient: ContextGradient::default(),
            values: Panels::default(),
            value_gradient: Buffer::default(),
            weights: Buffer::zeroed(QUERY_BLOCK * KEY_STRIDE),
            gradient: Buffer::zeroed(QUERY_BLOCK * KEY_STRIDE),
            slopes: Buffer::default(),
            before: Buffer::default(),
            kept: vec![E::ONE; KEY_TILE + MAX_LANES],
        }
    }
}

impl<E: Real, T: TileScore<E>> Job<E> for Task<'_, E, T> {
    type Output = Partial<E>;

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) -> Partial<E> {
        let (attention, key, wanted) = (self.attention, self.key, self.wanted);
        let score = attention.score;
        let sizes = score.sizes();
        let zeros = |is_wanted, len| Buffer::zeroed(if is_wanted { len } else { 0 });
        let mut partial = Partial {
            biases: BiasSums::new(&attention.modifiers, wanted, sizes, self.chunk.clone()),
            shared: zeros(wanted.shared, sizes.shared),
        };
        let span = attention.mask.span(key.batch, 0..sizes.queries, sizes.keys);
        let start = span.start.max(self.chunk.start);
        let range = start - start % KEY_TILE..span.end.min(self.chunk.end);
        if range.is_empty() {
            return partial;
        }
        let mut scratch = self.scratches.take();
        let [.., value_size] = attention.values.shape();
        let value_stride = padded::<E, S>(value_size);
        let phase = Phase::Backward(wanted);
        score.pack_keys(simd, key, range.clone(), phase, &mut scratch.keys);
        if wanted.through_scores() {
            let values = &attention.values;
            scratch.values.pack(simd, values, key, range.clone());
        }
        if wanted.values {
            let value_gradient = scratch.value_gradient.of_len(range.len() * value_stride);
            value_gradient.fill(E::ZERO);
        }
        let biases = &mut partial.biases;
        for member in 0..sizes.heads.group() {
            for start in (0..sizes.queries).step_by(QUERY_BLOCK) {
                let block = start..sizes.queries.min(start + QUERY_BLOCK);
                self.block(simd, member, block, &range, &mut scratch, biases);
            }
        }
        let first = range.start - self.chunk.start;
        let rows = first..first + range.len();
        if let Some(keys) = &mut self.gradients.keys {
            let keys = &mut keys[rows.start * sizes.size..rows.end * sizes.size];
            score.add_key_gradient(simd, &scratch.keys, keys);
        }
        if wanted.shared {
            score.add_shared_gradient(&scratch.keys, &mut partial.shared);
        }
        if let Some(values) = self.gradients.values.filter(|_| value_size > 0) {
            let values = &mut values[rows.start * value_size..rows.end * value_size];
            let sums = scratch.value_gradient.chunks_exact(value_stride);
            for (to, from) in values.chunks_exact_mut(value_size).zip(sums) {
                add(from, to);
            }
        }
        self.scratches.put(scratch);
        partial
    }
}

impl<E: Real, T: TileScore<E>> Task<'_, E, T> {
    /// Adds the contributions of a block of queries of the group's `member`-th head; `range` are the packed keys.
    #[inline(always)]
    fn block<S: Simd<E>>(
        &mut self,
        simd: S,
        member: usize,
        queries: Range<usize>,
        range: &Range<usize>,
        scratch: &mut Scratch<E, T>,
        biases: &mut BiasSums<E>,
    ) {
        let (attention, key, wanted) = (self.attention, self.key, self.wanted);
        let score = attention.score;
        let sizes = score.sizes();
        let query = sizes.heads.member(key, member);
        let span = attention.mask.span(key.batch, queries.clone(), sizes.keys);
        let span = span.start.max(range.start)..span.end.min(range.end);
        if span.is_empty() {
            return;
        }
        let (phase, packed) = (Phase::Backward(wanted), &mut scratch.queries);
        score.pack_queries(simd, query, queries.clone(), phase, packed);
        let (unit, packed) = (attention.unit(), &mut scratch.context_gradient);
        packed.pack(simd, unit, self.outputs, query, queries.clone());
        for keys in tiles(span) {
            let tile = Tile {
                head: HeadPair { query, key },
                queries: queries.clone(),
                keys,
            };
            let coverage = tile.coverage(attention);
            if coverage == Coverage::None {
                continue;
            }
            scratch.tile(simd, attention, wanted, &tile, coverage, range);
            if wanted.bias || wanted.relative_bias {
                let first = tile.keys.start - self.chunk.start;
                let rows = scratch.gradient.chunks_exact(KEY_STRIDE);
                for (row, query) in rows.zip(queries.clone()) {
                    biases.add(member, query, first, &row[..tile.keys.len()]);
                }
            }
            scratch.through_score(simd, attention, wanted, &tile);
        }
        if let Some(gradient) = &mut self.gradients.queries {
            let rows = member * sizes.queries + queries.start..member * sizes.queries + queries.end;
            let gradient = &mut gradient[rows.start * sizes.size..rows.end * sizes.size];
            score.add_query_gradient(simd, &scratch.queries, gradient);
        }
    }
}

impl<E: Real, T: TileScore<E>> Scratch<E, T> {
    /// Computes the weights and the gradients of the modified scores for one tile of a block, and adds to the values'
    /// gradients.
    #[inline(always)]
    fn tile<S: Simd<E>>(
        &mut self,
        simd: S,
        attention: &Attention<E, T>,
        wanted: Wanted,
        tile: &Tile,
        coverage: Coverage,
        range: &Range<usize>,
    ) {
        let score = attention.score;
        let keys = tile.keys.clone();
        let (queries, scores) = (&self.queries, &mut self.weights);
        score.scores(simd, queries, &self.keys, keys.clone(), scores);
        let modifiers = &attention.modifiers;
        let len_if = |is_there| if is_there { self.weights.len() } else { 0 };
        let lens = [modifiers.soft_cap.is_some(), modifiers.score_mod.is_some()].map(len_if);
        let beside = [self.slopes.of_len(lens[0]), self.before.of_len(lens[1])];
        tile.complete(simd, attention, coverage, &mut self.weights, beside);
        let from_above = &self.context_gradient.rows;
        let attended = tile.attended_rows(&from_above.non_finite, &self.weights);
        let first = keys.start - range.start;
        if wanted.through_scores() {
            let (values, within) = (&self.values, first..first + keys.len());
            values.multiply(simd, from_above, within, &mut self.gradient);
        }
        self.weights_and_score_gradient(simd, attention, tile);
        let score_mod = attention.modifiers.score_mod;
        if let Some(score_mod) = score_mod.filter(|_| wanted.through_scores()) {
            let rows = (tile.head.query, tile.queries.clone(), tile.keys.clone());
            through(score_mod, rows, &mut self.before, &mut self.gradient);
        }
        if wanted.values {
            let [.., value_size] = attention.values.shape();
            self.sum_value_gradient(simd, tile, first, value_size, &attended);
        }
    }

    /// Propagates the gradients of the modified scores through the soft-cap and the score.
    #[inline(always)]
    fn through_score<S: Simd<E>>(
        &mut self,
        simd: S,
        attention: &Attention<E, T>,
        wanted: Wanted,
        tile: &Tile,
    ) {
        if attention.modifiers.soft_cap.is_some() {
            let (rows, width) = (tile.queries.len(), tile.keys.len());
            through_soft_cap(simd, [rows, width], &self.slopes, &mut self.gradient);
        }
        let (score, gradient) = (attention.score, &self.gradient);
        let (queries, keys) = (&mut self.queries, &mut self.keys);
        score.backward(simd, wanted, queries, keys, tile.keys.clone(), gradient);
    }

    /// Adds the products of a tile's weights and the context gradients to the gradients of the values, from the packed
    /// value `first` on; `attended` has the keys of each query whose context gradient is not finite.
    #[inline(always)]
    fn sum_value_gradient<S: Simd<E>>(
        &mut self,
        simd: S,
        tile: &Tile,
        first: usize,
        value_size: usize,
        attended: &[bool],
    ) {
        let num_keys = tile.keys.len();
        let value_stride = padded::<E, S>(value_size);
        let from_above = &self.context_gradient.rows;
        let to = &mut self.value_gradient[first * value_stride..(first + num_keys) * value_stride];
        Product {
            sizes: [num_keys, tile.queries.len(), value_stride],
            left: &self.weights,
            left_strides: [1, KEY_STRIDE],
            right: from_above.finite(),
            right_stride: value_stride,
            out: Block::new(to, [num_keys, value_stride], value_stride),
            start: Start::Sum,
        }
        .compute(simd);
        // The rows that the product left out.
        let rows = from_above.non_finite.iter();
        for (&row, attended) in rows.zip(attended.chunks(num_keys)) {
            let gradient = &from_above.data[row * value_stride..][..value_size];
            for key in (0..num_keys).filter(|&key| attended[key]) {
                let weight = self.weights[row * KEY_STRIDE + key];
                let out = &mut self.value_gradient[(first + key) * value_stride..];
                add_multiple(weight, gradient, out);
            }
        }
    }

    /// Replaces scores by dropped weights, and gradients of the dropped weights by gradients of the scores. For a
    /// masked pair both are 0, whatever the inputs are. If no gradient through the scores is requested, `gradient`
    /// holds remains of an earlier tile, which nobody reads.
    ///
    /// Weights are bounded by 1 against rounding; `min` lets NaN pass.
    #[inline(always)]
    fn weights_and_score_gradient<S: Simd<E>>(
        &mut self,
        simd: S,
        attention: &Attention<E, T>,
        tile: &Tile,
    ) {
        let whole = tile.keys.len().next_multiple_of(S::LANES);
        let lowest = simd.splat(-E::LARGEST);
        let unit = simd.splat(attention.unit());
        let zero = simd.zero();
        let gradients = self.gradient.chunks_exact_mut(KEY_STRIDE);
        let rows = self.weights.chunks_exact_mut(KEY_STRIDE).zip(gradients);
        let ContextGradient { lse, dot, .. } = &self.context_gradient;
        let scalars = lse.iter().zip(dot);
        let rows = rows.zip(scalars).zip(tile.queries.clone());
        for (((weights, gradient), (&[largest, log_sum], &dot)), query) in rows {
            let (lse, dot) = ([simd.splat(largest), simd.splat(log_sum)], simd.splat(dot));
            let weights = weights[..whole].chunks_exact_mut(S::LANES);
            let vectors = weights.zip(gradient[..whole].chunks_exact_mut(S::LANES));
            if let Some(dropout) = attention.dropout {
                let scale = E::from_f64(dropout.scale());
                let kept = &mut self.kept[..whole];
                dropout.fill(tile.head.query, query, tile.keys.start, scale, kept);
                for ((weights, gradient), kept) in vectors.zip(kept.chunks_exact(S::LANES)) {
                    let score = simd.load(weights);
                    let kept = simd.load(kept);
                    let weight = weight(simd, score, lse, unit);
                    let difference = simd.sub(simd.mul(simd.load(gradient), kept), dot);
                    let masked = simd.less(score, lowest);
                    simd.store(simd.select(masked, zero, simd.mul(weight, kept)), weights);
                    let of_score = simd.mul(weight, difference);
                    simd.store(simd.select(masked, zero, of_score), gradient);
                }
            } else {
                for (weights, gradient) in vectors {
                    let score = simd.load(weights);
                    let weight = weight(simd, score, lse, unit);
                    let difference = simd.sub(simd.load(gradient), dot);
                    let masked = simd.less(score, lowest);
                    simd.store(simd.select(masked, zero, weight), weights);
                    let of_score = simd.mul(weight, difference);
                    simd.store(simd.select(masked, zero, of_score), gradient);
                }
            }
        }
    }
}
