//! The steps between the products of a tile.

use std::ops::Range;

use super::score::{PANEL, Place, STRIDE, TILE, TileScore};
use super::{Attention, FiniteRows};
use crate::Real;
use crate::simd::Simd;

/// Some queries and some keys of one head.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub place: Place,
    pub queries: Range<usize>,
    pub keys: Range<usize>,
}

/// What the queries of a tile see of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Nothing,
    Some,
    Everything,
}

impl Tile {
    /// Looks at the mask.
    pub(super) fn sight<E: Real, T>(&self, attention: &Attention<E, T>, num_keys: usize) -> Sight {
        let mask = attention.mask;
        if mask.is_none() {
            return Sight::Everything;
        }
        let (mut nothing, mut everything) = (true, !mask.is_dense());
        let Place { batch, head, .. } = self.place;
        for query in self.queries.clone() {
            let visible = mask.visible(batch, head, query, num_keys);
            let start = visible.range.start.max(self.keys.start);
            let end = visible.range.end.min(self.keys.end);
            nothing = nothing && !visible.sees_any(&self.keys);
            everything = everything && (start..end) == self.keys;
        }
        match (nothing, everything) {
            (true, _) => Sight::Nothing,
            (_, true) => Sight::Everything,
            _ => Sight::Some,
        }
    }

    /// Completes the scores: adds the bias, and sets hidden keys, and what fills the last vector, to minus infinity.
    #[inline(always)]
    pub(super) fn complete<E: Real, S: Simd<E>, T>(
        &self,
        _simd: S,
        attention: &Attention<E, T>,
        num_keys: usize,
        sight: Sight,
        scores: &mut [E],
    ) where
        T: TileScore<E>,
    {
        let count = self.keys.len();
        let whole = count.next_multiple_of(S::LANES);
        let Place { batch, head, .. } = self.place;
        if let Some(bias) = attention.bias {
            let head = if bias.shape()[1] == 1 { 0 } else { head };
            let mut scratch = Vec::new();
            let bias = bias.row(batch, head, 0).part(self.keys.clone());
            let bias = bias.read(&mut scratch);
            add_bias(attention.score.unit(), bias, scores, self.queries.len());
        }
        if count < whole {
            for row in scores.chunks_mut(STRIDE).take(self.queries.len()) {
                row[count..whole].fill(-E::INFINITY);
            }
        }
        if sight == Sight::Everything {
            return;
        }
        for (row, query) in scores.chunks_mut(STRIDE).zip(self.queries.clone()) {
            let visible = attention.mask.visible(batch, head, query, num_keys);
            visible.hide(&self.keys, &mut row[..count], -E::INFINITY);
        }
    }

    /// Which columns of the tile hold rows of `keys` that are not finite.
    pub(super) fn listed<E: Real>(&self, rows: &FiniteRows<E>) -> Vec<usize> {
        let keys = rows.non_finite.iter().map(|row| row + rows.range.start);
        let within = keys.filter(|key| self.keys.contains(key));
        within.map(|key| key - self.keys.start).collect()
    }

    /// Whether each query sees the listed columns, `[columns, queries]`.
    pub(super) fn seen_columns<E: Real>(&self, columns: &[usize], scores: &[E]) -> Vec<bool> {
        let pairs = columns
            .iter()
            .flat_map(|&j| (0..self.queries.len()).map(move |i| (i, j)));
        pairs
            .map(|(i, j)| scores[i * STRIDE + j] != -E::INFINITY)
            .collect()
    }

    /// Whether the listed rows see each key, `[rows, keys]`.
    pub(super) fn seen_rows<E: Real>(&self, rows: &[usize], scores: &[E]) -> Vec<bool> {
        let pairs = rows
            .iter()
            .flat_map(|&i| (0..self.keys.len()).map(move |j| (i, j)));
        pairs
            .map(|(i, j)| scores[i * STRIDE + j] != -E::INFINITY)
            .collect()
    }
}

/// Cuts a range of keys at the multiples of [`TILE`]; the first one starts at a multiple of [`PANEL`], which may be
/// before the range.
pub(super) fn tiles(keys: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let start = keys.start - keys.start % PANEL;
    let firsts = (start - start % TILE..keys.end).step_by(TILE);
    firsts.map(move |first| first.max(start)..keys.end.min(first + TILE))
}

/// Turns scores into natural logits and adds the bias of each key; minus infinity hides a key whatever its score is.
#[inline(always)]
fn add_bias<E: Real>(unit: E, bias: &[E], scores: &mut [E], rows: usize) {
    let natural = E::from_f64(unit.to_f64() * std::f64::consts::LN_2);
    for row in scores.chunks_mut(STRIDE).take(rows) {
        for (score, &bias) in row.iter_mut().zip(bias) {
            let sum = *score * natural + bias;
            *score = if bias == -E::INFINITY { bias } else { sum };
        }
    }
}
