//! The running softmax of a block of queries.

use cpu_kernels::simd::{MAX_LANES, Simd};
use cpu_kernels::{Buffer, Real};

use super::attention::LogSumExp;
use super::pack::padded;
use super::sinks::Normalizer;
use super::tile::Tile;
use crate::Dropout;
use crate::tiles::{KEY_STRIDE, KEY_TILE, QUERY_BLOCK};

/// The softmax of a block of queries, updated tile by tile.
pub(super) struct RunningSoftmax<E> {
    /// `[QUERY_BLOCK, KEY_STRIDE]`: scores, then weights before their normalisation.
    pub tile: Buffer<E>,
    /// The unit of the scores in the tile.
    unit: E,
    /// The sink, in the same unit.
    sink: Option<E>,
    /// `[QUERY_BLOCK]`: running maxima of the scores.
    maxima: Vec<E>,
    /// `[QUERY_BLOCK]`: the reference that exponents of the tile are relative to.
    references: Vec<E>,
    /// `[QUERY_BLOCK]`: the factors that multiply the earlier sums.
    pub factors: Vec<E>,
    /// `[QUERY_BLOCK, LANES]`: running sums, a sum for each lane.
    sums: Vec<E>,
    /// `[QUERY_BLOCK, padded value_size]`: running weighted sums of values.
    pub context: Buffer<E>,
    /// Dropout factors of a row.
    kept: Vec<E>,
}

impl<E: Real> Default for RunningSoftmax<E> {
    fn default() -> Self {
        Self {
            tile: Buffer::zeroed(QUERY_BLOCK * KEY_STRIDE),
            unit: E::ONE,
            sink: None,
            maxima: vec![E::ZERO; QUERY_BLOCK.next_multiple_of(MAX_LANES)],
            references: vec![E::ZERO; QUERY_BLOCK.next_multiple_of(MAX_LANES)],
            factors: vec![E::ZERO; QUERY_BLOCK.next_multiple_of(MAX_LANES)],
            sums: vec![E::ZERO; QUERY_BLOCK * MAX_LANES],
            context: Buffer::default(),
            kept: vec![E::ZERO; KEY_TILE],
        }
    }
}

impl<E: Real> RunningSoftmax<E> {
    /// The state before the first tile: no key was attended to, but there may be a sink, in the unit of the scores.
    pub(super) fn start(&mut self, unit: E, sink: Option<E>, rows: usize, value_stride: usize) {
        (self.unit, self.sink) = (unit, sink);
        self.maxima.fill(sink.unwrap_or(-E::INFINITY));
        self.sums.fill(E::ZERO);
        self.context.of_len(rows * value_stride).fill(E::ZERO);
    }

    /// Turns the scores of a tile into weights `2^(unit (s - m))`, adds them to the sums, and writes to `factors` by
    /// how much the growth of the maxima scales the earlier sums: `2^(unit (m before - m))`.
    ///
    /// The difference is taken first, exact where it matters: the product of a large maximum and the unit rounds.
    ///
    /// Until a query attends to a key its maximum is minus infinity; 0 in its place makes weights and factor 0.
    #[inline(always)]
    pub(super) fn weights<S: Simd<E>>(&mut self, simd: S, rows: usize, columns: usize) {
        let whole = columns.next_multiple_of(S::LANES);
        let lowest = simd.splat(-E::INFINITY);
        let unit = simd.splat(self.unit);
        let lines = self.tile.chunks_exact(KEY_STRIDE);
        for (row, largest) in lines.zip(&mut self.factors[..rows]) {
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
        let lines = self.tile.chunks_exact_mut(KEY_STRIDE).zip(sums);
        for ((row, sums), (&reference, &factor)) in lines.zip(scalars).take(rows) {
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

    /// Sets dropped weights to 0. The sums include them, and the kept weights are scaled at the end.
    #[inline(always)]
    pub(super) fn apply_dropout<S: Simd<E>>(&mut self, simd: S, tile: &Tile, dropout: &Dropout) {
        let whole = tile.keys.len().next_multiple_of(S::LANES);
        let rows = self.tile.chunks_exact_mut(KEY_STRIDE);
        for (row, query) in rows.zip(tile.queries.clone()) {
            let kept = &mut self.kept[..whole];
            dropout.fill(tile.head.query, query, tile.keys.start, E::ONE, kept);
            let vectors = row.chunks_exact_mut(S::LANES);
            for (weights, kept) in vectors.zip(kept.chunks_exact(S::LANES)) {
                simd.store(simd.mul(simd.load(weights), simd.load(kept)), weights);
            }
        }
    }

    /// Divides by the sums, the sink included: `context / l`, and `m` and `ln l`. If no key was attended to, the
    /// context is 0, and the log-sum-exp has the terms of the sink or, without one,
    /// [`NO_KEY`](super::attention::NO_KEY).
    #[inline(always)]
    pub(super) fn finish<S: Simd<E>>(
        &self,
        simd: S,
        value_size: usize,
        scale: E,
        context: &mut [E],
        lse: &mut [LogSumExp],
    ) {
        let stride = padded::<E, S>(value_size);
        let natural = self.unit.to_f64() * std::f64::consts::LN_2;
        for (i, lse) in lse.iter_mut().enumerate() {
            let sum = simd.sum(simd.load(&self.sums[i * S::LANES..]));
            let normalizer = Normalizer::new(sum, self.maxima[i], self.sink, natural);
            *lse = normalizer.lse;
            let factor = if sum == E::ZERO {
                E::ZERO
            } else {
                scale / E::from_f64(normalizer.sum)
            };
            let factor = simd.splat(factor);
            let from = &self.context[i * stride..(i + 1) * stride];
            let to = &mut context[i * value_size..(i + 1) * value_size];
            for (from, to) in from.chunks_exact(S::LANES).zip(to.chunks_mut(S::LANES)) {
                simd.store_partial(simd.mul(simd.load(from), factor), to);
            }
        }
    }
}
