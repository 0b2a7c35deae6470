//! Scaled dot products, `score[i, j] = scale * (q[i] . k[j])`, as a score of tiles and of rows.
//!
//! Tiles hold `(f q) . k`: the scale is `f r`, where `f` has its sign and is a power of two at most 1, so that products
//! that only the scale keeps in range do not overflow. The unit `r log2 e` makes them base-2 logits. From the gradient
//! `ds` of the score, queries get `scale * ds K` and keys `r * ds^T (f Q)`.

use std::ops::Range;

use cpu_kernels::simd::gemm::{Product, Start};
use cpu_kernels::simd::{Block, Level, Simd};
use cpu_kernels::{Buffer, Real};

use crate::AttentionInputs;
use crate::decode::{self, RowGradients, RowScore};
use crate::gather::{Gathered, add_multiples};
use crate::heads::Heads;
use crate::slices::add_multiple;
use crate::stream::{
    Attention, AttentionGradients, AttentionOutputs, FiniteRows, LogSumExp, PackedRows, Panels,
    Phase, Sizes, TileScore, Wanted, padded,
};
use crate::tiles::KEY_STRIDE;
use crate::{HeadIndex, Rows};

/// `scale * (q . k)`
#[derive(Debug)]
pub(crate) struct DotProductScore<'a, E> {
    queries: Rows<'a, E>,
    keys: Rows<'a, E>,
    heads: Heads,
    scale: E,
    split: SplitScale<E>,
}

/// The scale as a product of two factors. If the scale is 0, both are 0.
#[derive(Clone, Copy, Debug)]
struct SplitScale<E> {
    /// The factor of the queries: a power of two at most 1 with the sign of the scale.
    power: E,
    rest: E,
}

/// Some keys of one head.
#[derive(Debug, Default)]
pub(crate) struct Keys<E> {
    panels: Panels<E>,
    /// For the backward pass only.
    rows: FiniteRows<E>,
    /// `[range, padded key_size]`, for the backward pass only.
    gradient: Buffer<E>,
    /// The first key.
    first: usize,
}

/// A block of queries.
#[derive(Debug, Default)]
pub(crate) struct Queries<E> {
    /// `f q`
    rows: PackedRows<E>,
    /// `[queries, padded key_size]`, for the backward pass only.
    gradient: Buffer<E>,
}

impl<'a, E: Real> DotProductScore<'a, E> {
    /// # Panics
    /// If the shapes of queries and keys do not fit together.
    pub(crate) fn new(inputs: &AttentionInputs<'a, E>, scale: E) -> Self {
        let AttentionInputs { queries, keys, .. } = *inputs;
        Self {
            queries,
            keys,
            heads: Heads::of(Self::OPERATION, queries.shape(), keys.shape()),
            scale,
            split: SplitScale::of(scale),
        }
    }
}

impl<E: Real> SplitScale<E> {
    fn of(scale: E) -> Self {
        let exponent = scale.abs().to_f64().log2().floor().min(0.0);
        let power = E::from_f64(exponent.exp2());
        let (power, rest) = if scale > E::ZERO {
            (power, scale / power)
        } else if scale < E::ZERO {
            (-power, -scale / power)
        } else {
            (scale, scale)
        };
        Self { power, rest }
    }
}

impl<E: Real> TileScore<E> for DotProductScore<'_, E> {
    const OPERATION: &'static str = "dot product attention";

    type Keys = Keys<E>;
    type Queries = Queries<E>;

    fn sizes(&self) -> Sizes {
        let [_, _, queries, size] = self.queries.shape();
        let [_, _, keys, _] = self.keys.shape();
        Sizes {
            heads: self.heads,
            queries,
            keys,
            size,
            shared: 0,
        }
    }

    fn unit(&self) -> E {
        let unit = self.split.rest * E::from_f64(std::f64::consts::LOG2_E);
        if unit > E::ZERO { unit } else { E::ONE }
    }

    #[inline(always)]
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        keys: Range<usize>,
        phase: Phase,
        packed: &mut Keys<E>,
    ) {
        packed.first = keys.start;
        packed.panels.pack(simd, &self.keys, at, keys.clone());
        let Phase::Backward(wanted) = phase else {
            return;
        };
        if wanted.keys {
            let [.., size] = self.keys.shape();
            let len = keys.len() * padded::<E, S>(size);
            packed.gradient.of_len(len).fill(E::ZERO);
        }
        if wanted.queries {
            packed.rows.pack(simd, &self.keys, at, keys);
        }
    }

    #[inline(always)]
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        queries: Range<usize>,
        phase: Phase,
        packed: &mut Queries<E>,
    ) {
        let rows = &mut packed.rows;
        rows.pack(simd, &self.queries, at, queries, self.split.power);
        let Phase::Backward(wanted) = phase else {
            return;
        };
        if wanted.queries {
            let len = rows.count * rows.stride;
            packed.gradient.of_len(len).fill(E::ZERO);
        }
        if wanted.keys {
            rows.find_non_finite(simd);
        }
    }

    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &Queries<E>,
        keys: &Keys<E>,
        tile: Range<usize>,
        out: &mut [E],
    ) {
        let within = tile.start - keys.first..tile.end - keys.first;
        keys.panels.multiply(simd, &queries.rows, within, out);
    }

    #[inline(always)]
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        wanted: Wanted,
        queries: &mut Queries<E>,
        keys: &mut Keys<E>,
        tile: Range<usize>,
        gradient: &[E],
    ) {
        let PackedRows { count, stride, .. } = queries.rows;
        if wanted.queries {
            Product {
                sizes: [count, tile.len(), stride],
                left: gradient,
                left_strides: [KEY_STRIDE, 1],
                right: keys.rows.from(&self.keys, tile.start),
                right_stride: stride,
                out: Block::new(&mut queries.gradient, [count, stride], stride),
                start: Start::Sum,
            }
            .compute(simd);
        }
        if wanted.keys {
            let to = &mut keys.gradient[(tile.start - keys.first) * stride..];
            Product {
                sizes: [tile.len(), count, stride],
                left: gradient,
                left_strides: [1, KEY_STRIDE],
                right: queries.rows.finite(),
                right_stride: stride,
                out: Block::new(to, [tile.len(), stride], stride),
                start: Start::Sum,
            }
            .compute(simd);
        }
    }

    #[inline(always)]
    fn add_query_gradient<S: Simd<E>>(&self, _simd: S, queries: &Queries<E>, gradient: &mut [E]) {
        let [.., size] = self.queries.shape();
        add_rows::<E, S>(self.scale, &queries.gradient, size, gradient);
    }

    #[inline(always)]
    fn add_key_gradient<S: Simd<E>>(&self, _simd: S, keys: &Keys<E>, gradient: &mut [E]) {
        let [.., size] = self.keys.shape();
        add_rows::<E, S>(self.split.rest, &keys.gradient, size, gradient);
    }

    fn add_shared_gradient(&self, _keys: &Keys<E>, _shared: &mut [E]) {}

    fn decode_forward(
        level: Level,
        attention: &Attention<E, Self>,
        context: &mut [E],
        lse: &mut [LogSumExp],
    ) {
        decode::forward(level, attention, context, lse);
    }

    fn decode_backward(
        level: Level,
        attention: &Attention<E, Self>,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    ) {
        decode::backward(level, attention, outputs, gradients);
    }
}

impl<E: Real> RowScore<E> for DotProductScore<'_, E> {
    fn rows(&self) -> [Rows<'_, E>; 2] {
        [self.queries, self.keys]
    }

    fn factors(&self) -> [E; 2] {
        [self.split.power, self.split.rest]
    }

    #[inline(always)]
    fn row_scores<S: Simd<E>>(&self, simd: S, query: &[E], keys: Gathered<E>, scores: &mut [E]) {
        keys.dots(simd, query, scores);
    }

    #[inline(always)]
    fn add_row_gradients<S: Simd<E>>(
        &self,
        simd: S,
        query: &[E],
        keys: Gathered<E>,
        gradients: &[E],
        to: RowGradients<E>,
    ) {
        if let Some(to) = to.keys {
            let (indices, rest) = (keys.indices, self.split.rest);
            add_multiples(simd, indices, gradients, rest, query, to);
        }
        if let Some(to) = to.query {
            keys.weighted_sum(simd, gradients, self.scale, to);
        }
    }
}

/// `to += factor * from`, where the rows of `from` are padded.
#[inline(always)]
fn add_rows<E: Real, S: Simd<E>>(factor: E, from: &[E], size: usize, to: &mut [E]) {
    if size > 0 {
        let from = from.chunks_exact(padded::<E, S>(size));
        for (to, from) in to.chunks_exact_mut(size).zip(from) {
            add_multiple(factor, from, to);
        }
    }
}
