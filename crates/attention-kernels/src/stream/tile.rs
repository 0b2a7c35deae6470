//! The steps between the products of a tile.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::attention::Attention;
use super::pack::FiniteRows;
use super::score::TileScore;
use crate::heads::HeadPair;
use crate::modifiers::Modification;
use crate::tiles::{KEY_PANEL, KEY_STRIDE, KEY_TILE};

/// Some queries and some keys of one head.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub head: HeadPair,
    pub queries: Range<usize>,
    pub keys: Range<usize>,
}

/// How many of a tile's keys its queries attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    None,
    Some,
    All,
}

impl Tile {
    /// How much of the tile the mask keeps.
    pub(super) fn coverage<E: Real, T>(&self, attention: &Attention<E, T>) -> Coverage {
        let mask = attention.mask;
        if mask.is_none() {
            return Coverage::All;
        }
        let [_, _, num_keys, _] = attention.values.shape();
        let (mut none, mut all) = (true, !mask.is_dense());
        for query in self.queries.clone() {
            let mask = mask.of_query(self.head.query, query, num_keys);
            let start = mask.range.start.max(self.keys.start);
            let end = mask.range.end.min(self.keys.end);
            none = none && !mask.attends_any(&self.keys);
            all = all && (start..end) == self.keys;
        }
        match (none, all) {
            (true, _) => Coverage::None,
            (_, true) => Coverage::All,
            _ => Coverage::Some,
        }
    }

    /// Completes the scores: modifies them, and sets masked keys and the rest of the last vector to minus infinity. The
    /// derivatives of a soft-cap are written to `slopes`, and the scores before a user's function to `before`, unless
    /// these are empty.
    #[inline(always)]
    pub(super) fn complete<E: Real, S: Simd<E>, T: TileScore<E>>(
        &self,
        simd: S,
        attention: &Attention<E, T>,
        coverage: Coverage,
        scores: &mut [E],
        [slopes, before]: [&mut [E]; 2],
    ) {
        let count = self.keys.len();
        let whole = count.next_multiple_of(S::LANES);
        let at = self.head.query;
        if !attention.modifiers.keeps_scores() {
            let natural = attention.score.unit().to_f64() * std::f64::consts::LN_2;
            simd.call(Modification {
                modifiers: &attention.modifiers,
                natural: E::from_f64(natural),
                at,
                queries: self.queries.clone(),
                num_queries: attention.score.sizes().queries,
                keys: self.keys.clone(),
                scores: &mut *scores,
                slopes,
                before,
            });
        }
        if count < whole {
            for row in scores.chunks_mut(KEY_STRIDE).take(self.queries.len()) {
                row[count..whole].fill(-E::INFINITY);
            }
        }
        if coverage == Coverage::All {
            return;
        }
        let [_, _, num_keys, _] = attention.values.shape();
        for (row, query) in scores.chunks_mut(KEY_STRIDE).zip(self.queries.clone()) {
            let mask = attention.mask.of_query(at, query, num_keys);
            mask.fill(&self.keys, &mut row[..count], -E::INFINITY);
        }
    }

    /// The columns of the tile whose keys have non-finite rows.
    pub(super) fn non_finite_columns<E: Real>(&self, rows: &FiniteRows<E>) -> Vec<usize> {
        let within = rows.non_finite().filter(|key| self.keys.contains(key));
        within.map(|key| key - self.keys.start).collect()
    }

    /// Whether each query attends to the keys of `columns`, `[columns, queries]`, judged by the completed scores.
    pub(super) fn attended_columns<E: Real>(&self, columns: &[usize], scores: &[E]) -> Vec<bool> {
        let rows = 0..self.queries.len();
        let pairs = columns
            .iter()
            .flat_map(|j| rows.clone().map(move |i| i * KEY_STRIDE + j));
        pairs.map(|at| scores[at] != -E::INFINITY).collect()
    }

    /// Whether the queries of `rows` attend to each key, `[rows, keys]`, judged by the completed scores.
    pub(super) fn attended_rows<E: Real>(&self, rows: &[usize], scores: &[E]) -> Vec<bool> {
        let columns = 0..self.keys.len();
        let pairs = rows
            .iter()
            .flat_map(|i| columns.clone().map(move |j| i * KEY_STRIDE + j));
        pairs.map(|at| scores[at] != -E::INFINITY).collect()
    }
}

/// Cuts a range of keys at the multiples of [`KEY_TILE`]; the first one starts at a multiple of [`KEY_PANEL`], which
/// may be before the range.
pub(super) fn tiles(keys: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let start = keys.start - keys.start % KEY_PANEL;
    let firsts = (start - start % KEY_TILE..keys.end).step_by(KEY_TILE);
    firsts.map(move |first| first.max(start)..keys.end.min(first + KEY_TILE))
}
