//! The dot product as a score of tiles.
//!
//! Tiles hold `(f q) . k`: the scale is `f r`, where `f` has its sign and is a power of two at most 1, so that a product
//! that only the scale keeps in range does not overflow before it. The unit `r log2 e` makes them base-2 logits. From
//! the gradient `ds` of the score the queries get `scale * ds K` and the keys `r * ds^T (f Q)`.

use std::ops::Range;

use crate::simd::Simd;
use crate::simd::gemm::{Product, Start};
use crate::stream::{
    FiniteRows, Pass, Place, Sizes, TileScore, clear_rows, find_non_finite, multiply_panels,
    pack_panels, pack_rows, padded,
};
use crate::{Real, Rows};

/// `scale * (q . k)`
#[derive(Debug)]
pub(super) struct DotScore<'a, E> {
    queries: Rows<'a, E>,
    keys: Rows<'a, E>,
    scale: E,
    /// The scale by [`split_scale`].
    split: [E; 2],
}

#[derive(Debug, Default)]
pub(super) struct Keys<E> {
    place: [usize; 2],
    range: Range<usize>,
    panels: Vec<E>,
    rows: FiniteRows<E>,
    /// `[range, padded key_size]`
    gradient: Vec<E>,
}

#[derive(Debug, Default)]
pub(super) struct Queries<E> {
    count: usize,
    /// `f q`, `[count, padded key_size]`
    rows: Vec<E>,
    /// The same with zeros for rows that are not finite, if there are any.
    finite: Vec<E>,
    non_finite: Vec<usize>,
    /// `[count, padded key_size]`
    gradient: Vec<E>,
}

impl<'a, E: Real> DotScore<'a, E> {
    /// # Panics
    /// If the sizes of queries and keys do not fit.
    pub(super) fn new(queries: Rows<'a, E>, keys: Rows<'a, E>, scale: E) -> Self {
        let ([batch, .., size], [key_batch, .., key_size]) = (queries.shape(), keys.shape());
        assert!(
            batch == key_batch && size == key_size,
            "dot product: expected keys [{batch}, _, _, {size}], got {:?}",
            keys.shape()
        );
        Self {
            queries,
            keys,
            scale,
            split: split_scale(scale),
        }
    }
}

/// The scale as a product: a power of two at most 1 with its sign, which the queries are multiplied with, and the rest.
/// Of a scale of 0, both are 0.
pub(super) fn split_scale<E: Real>(scale: E) -> [E; 2] {
    let exponent = scale.abs().to_f64().log2().floor().min(0.0);
    let power = E::from_f64(exponent.exp2());
    if scale > E::ZERO {
        [power, scale / power]
    } else if scale < E::ZERO {
        [-power, -scale / power]
    } else {
        [scale, scale]
    }
}

impl<E: Real> TileScore<E> for DotScore<'_, E> {
    type Keys = Keys<E>;
    type Queries = Queries<E>;

    fn sizes(&self) -> Sizes {
        let [batch, heads, queries, size] = self.queries.shape();
        let [_, key_heads, keys, _] = self.keys.shape();
        Sizes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            query_size: size,
            key_size: size,
            shared: 0,
        }
    }

    fn unit(&self) -> E {
        let [_, rest] = self.split;
        let unit = rest * E::from_f64(std::f64::consts::LOG2_E);
        if unit > E::ZERO { unit } else { E::ONE }
    }

    #[inline(always)]
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        place: Place,
        keys: Range<usize>,
        pass: Pass,
        packed: &mut Keys<E>,
    ) {
        let [.., size] = self.keys.shape();
        let place = [place.batch, place.key_head];
        packed.place = place;
        packed.range = keys.clone();
        pack_panels(simd, &self.keys, place, keys.clone(), &mut packed.panels);
        if pass == Pass::Backward {
            packed.gradient.clear();
            packed
                .gradient
                .resize(keys.len() * padded::<E, S>(size), E::ZERO);
            packed.rows.pack(simd, &self.keys, place, keys);
        }
    }

    #[inline(always)]
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        place: Place,
        queries: Range<usize>,
        pass: Pass,
        packed: &mut Queries<E>,
    ) {
        let [.., size] = self.queries.shape();
        let stride = padded::<E, S>(size);
        let place = [place.batch, place.head];
        packed.count = queries.len();
        pack_rows(
            simd,
            &self.queries,
            place,
            queries,
            self.split[0],
            &mut packed.rows,
        );
        if pass == Pass::Backward {
            packed.gradient.clear();
            packed.gradient.resize(packed.count * stride, E::ZERO);
            find_non_finite(simd, &packed.rows, stride, stride, &mut packed.non_finite);
            if !packed.non_finite.is_empty() {
                packed.finite.clone_from(&packed.rows);
                clear_rows(&mut packed.finite, stride, &packed.non_finite);
            }
        }
    }

    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Queries<E>,
        keys: &Keys<E>,
        tile: Range<usize>,
        out: &mut [E],
        _stride: usize,
    ) {
        let [.., size] = self.keys.shape();
        let start = keys.range.start;
        let within = tile.start - start..tile.end - start;
        let left = (&queries.rows[..], padded::<E, S>(size));
        multiply_panels(simd, queries.count, left, &keys.panels, size, within, out);
    }

    #[inline(always)]
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Queries<E>,
        keys: &mut Keys<E>,
        tile: Range<usize>,
        gradient: &[E],
        stride: usize,
    ) {
        let [.., size] = self.keys.shape();
        let row = padded::<E, S>(size);
        Product {
            sizes: [queries.count, tile.len(), row],
            left: gradient,
            left_strides: [stride, 1],
            right: keys.rows.from(&self.keys, keys.place, tile.start, row),
            right_stride: row,
            out: &mut queries.gradient,
            out_stride: row,
            start: Start::Sum,
        }
        .compute(simd);
        let finite = if queries.non_finite.is_empty() {
            &queries.rows
        } else {
            &queries.finite
        };
        Product {
            sizes: [tile.len(), queries.count, row],
            left: gradient,
            left_strides: [1, stride],
            right: finite,
            right_stride: row,
            out: &mut keys.gradient[(tile.start - keys.range.start) * row..],
            out_stride: row,
            start: Start::Sum,
        }
        .compute(simd);
    }

    #[inline(always)]
    fn add_query_gradient<S: Simd<E>>(
        &self,
        _simd: S,
        queries: &mut Queries<E>,
        gradient: &mut [E],
    ) {
        let [.., size] = self.queries.shape();
        add_rows(
            &queries.gradient,
            padded::<E, S>(size),
            self.scale,
            size,
            gradient,
        );
    }

    #[inline(always)]
    fn add_key_gradient<S: Simd<E>>(
        &self,
        _simd: S,
        keys: &mut Keys<E>,
        gradient: &mut [E],
        _shared: &mut [E],
    ) {
        let [.., size] = self.keys.shape();
        let [_, factor] = self.split;
        add_rows(&keys.gradient, padded::<E, S>(size), factor, size, gradient);
    }
}

/// `to += factor * from`, where the rows of `from` are padded.
#[inline(always)]
fn add_rows<E: Real>(from: &[E], stride: usize, factor: E, size: usize, to: &mut [E]) {
    if size > 0 {
        for (to, from) in to.chunks_exact_mut(size).zip(from.chunks_exact(stride)) {
            for (to, &from) in to.iter_mut().zip(from) {
                *to += factor * from;
            }
        }
    }
}
