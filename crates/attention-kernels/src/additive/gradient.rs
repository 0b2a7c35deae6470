//! The gradients of a tile of scores.
//!
//! With `g = d loss / d score` and `t = tanh(q + k)`, recomputed rather than stored:
//!
//! ```text
//! dq[i,u] = w[u] sum_j g (1 - t^2)     dk[j,u] = w[u] sum_i g (1 - t^2)     dw[u] = sum_ij g t
//! ```
//!
//! The backward passes of fused attention (`stream.rs`) and of the score alone (`score/backward.rs`) use
//! [`ScoreGradients::add`]; a decoding step has its own loops (`decode/gradient.rs`).
//!
//! `-t = 1/x - 1` with `x = (1 + a c) / 2`, one multiply-add from `a / 2`. The hidden units are the lanes here: sums
//! over keys stay in registers, sums over queries in the first-level cache.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};

use super::range::{Evaluation, Magnitude, exponentials};
use super::tanh::{Bounded, Exact, Near, Tanh, Units};
use crate::rows::Row;
use crate::stream::Wanted;
use crate::tiles::{QUERY_TILE, UNIT_LANES, query_tiles};
use crate::unit_panel::UnitPanel;
use crate::{HeadIndex, Rows};

/// The sums that a loop computes; each choice is compiled separately.
pub(super) trait Sums {
    /// The sums of the queries and of the weight. Each costs only one addition per term, so they are one choice.
    const QUERIES: bool;
    /// The sums of the keys.
    const KEYS: bool;
}

/// All sums.
pub(super) struct All;

/// Sums of the keys alone.
pub(super) struct KeysOnly;

/// Sums of the queries and the weight alone.
pub(super) struct QueriesOnly;

impl Sums for All {
    const QUERIES: bool = true;
    const KEYS: bool = true;
}

impl Sums for KeysOnly {
    const QUERIES: bool = false;
    const KEYS: bool = true;
}

impl Sums for QueriesOnly {
    const QUERIES: bool = true;
    const KEYS: bool = false;
}

/// The gradients of the scores of some queries and keys.
pub(super) struct ScoreGradients<'a, E> {
    /// Indices among the keys of the [`Operand`], or in a decoding step among the keys of the head.
    pub keys: Range<usize>,
    /// `[queries][stride]`, where the first column is for key `keys.start`; 0 for masked pairs.
    pub gradient: &'a [E],
    pub stride: usize,
}

/// The terms that a vector of units of one pair adds to the sums.
pub(super) struct Terms<V> {
    /// The term in the sums of query and key, `g (1 - t^2)`.
    pub row: V,
    /// The term in the sums of the weight, `-g t`.
    pub weight: V,
}

impl<V: Copy> Terms<V> {
    #[inline(always)]
    pub(super) fn of<E: Real, S: Simd<E, V = V>>(simd: S, gradient: E, negative_tanh: V) -> Self {
        let gradient = simd.splat(gradient);
        let weight = simd.mul(gradient, negative_tanh);
        Self {
            row: simd.neg_mul_add(weight, negative_tanh, gradient),
            weight,
        }
    }
}

/// Some queries or keys of one head, and the sums that become their gradients.
#[derive(Default)]
pub(super) struct Operand<'a, E> {
    /// The rows themselves, for exact evaluation.
    rows: Vec<Row<'a, E>>,
    /// `e^(2x)`, halved for queries.
    exponentials: UnitPanel<E>,
    /// `sum g (1 - t^2)`
    sums: UnitPanel<E>,
    /// Magnitudes of each block of units.
    magnitudes: Vec<Magnitude>,
}

impl<'a, E: Real> Operand<'a, E> {
    /// Replaces the content by queries, with sums of zero.
    #[inline(always)]
    pub(super) fn fill_queries<S: Simd<E>>(
        &mut self,
        simd: S,
        from: &Rows<'a, E>,
        at: HeadIndex,
        range: Range<usize>,
    ) {
        self.fill(simd, from, at, range, E::from_f64(0.5));
    }

    /// Replaces the content by keys, with sums of zero.
    #[inline(always)]
    pub(super) fn fill_keys<S: Simd<E>>(
        &mut self,
        simd: S,
        from: &Rows<'a, E>,
        at: HeadIndex,
        range: Range<usize>,
    ) {
        self.fill(simd, from, at, range, E::ONE);
    }

    #[inline(always)]
    fn fill<S: Simd<E>>(
        &mut self,
        simd: S,
        from: &Rows<'a, E>,
        at: HeadIndex,
        range: Range<usize>,
        factor: E,
    ) {
        let [_, _, _, units] = from.shape();
        self.rows.clear();
        self.rows.extend(range.map(|row| from.row(at, row)));
        let blocks = units.div_ceil(UNIT_LANES);
        self.magnitudes.clear();
        self.magnitudes.resize(blocks, Magnitude::Near);
        self.exponentials.reset(self.rows.len(), blocks);
        self.clear_sums();
        let mut wide = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let units = row.read(&mut wide).chunks(UNIT_LANES);
            let columns = units.zip(self.exponentials.row_mut(index));
            for ((from, to), magnitude) in columns.zip(&mut self.magnitudes) {
                *magnitude = (*magnitude).max(exponentials(simd, from, to));
                let (to, beyond) = to.split_at_mut(from.len());
                to.iter_mut().for_each(|to| *to = factor * *to);
                beyond.fill(E::ZERO);
            }
        }
    }

    /// Sets the sums to zero.
    pub(super) fn clear_sums(&mut self) {
        self.sums.reset(self.rows.len(), self.magnitudes.len());
    }

    /// Adds `weight` times the sums to the gradients of the rows, `[rows][units]`.
    #[inline(always)]
    pub(super) fn add_gradients_to(&self, weight: &[E], gradients: &mut [E]) {
        for (row, to) in gradients.chunks_exact_mut(weight.len().max(1)).enumerate() {
            self.sums.add_row_to(row, weight, to);
        }
    }
}

/// The arguments of [`ScoreGradients::add`], which is compiled once for each instruction set.
struct Addition<'a, 'b, E> {
    scores: &'a ScoreGradients<'a, E>,
    wanted: Wanted,
    queries: &'a mut Operand<'b, E>,
    keys: &'a mut Operand<'b, E>,
    weight: &'a mut [E],
}

impl<E: Real> Job<E> for Addition<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (scores, wanted) = (self.scores, self.wanted);
        let (queries, keys, weight) = (self.queries, self.keys, self.weight);
        match (wanted.queries || wanted.shared, wanted.keys) {
            (true, true) => scores.add_sums::<S, All>(simd, queries, keys, weight),
            (true, false) => scores.add_sums::<S, QueriesOnly>(simd, queries, keys, weight),
            (false, true) => scores.add_sums::<S, KeysOnly>(simd, queries, keys, weight),
            (false, false) => {}
        }
    }
}

impl<E: Real> ScoreGradients<'_, E> {
    /// Adds the contributions of all queries and the keys `self.keys` to the sums of the requested gradients; `weight`,
    /// `[units]`, has the sums of the weight.
    #[inline(always)]
    pub(super) fn add<'b, S: Simd<E>>(
        &self,
        simd: S,
        wanted: Wanted,
        queries: &mut Operand<'b, E>,
        keys: &mut Operand<'b, E>,
        weight: &mut [E],
    ) {
        simd.call(Addition {
            scores: self,
            wanted,
            queries,
            keys,
            weight,
        });
    }

    #[inline(always)]
    fn add_sums<S: Simd<E>, W: Sums>(
        &self,
        simd: S,
        queries: &mut Operand<E>,
        keys: &mut Operand<E>,
        weight: &mut [E],
    ) {
        for block in 0..queries.magnitudes.len() {
            let evaluation = queries.magnitudes[block].with(keys.magnitudes[block]);
            let total = match evaluation {
                Evaluation::Near => self.add_block::<S, Near, W>(simd, block, queries, keys),
                Evaluation::Bounded => self.add_block::<S, Bounded, W>(simd, block, queries, keys),
                Evaluation::Exact => self.add_block::<S, Exact, W>(simd, block, queries, keys),
            };
            if W::QUERIES {
                for (weight, total) in weight[block * UNIT_LANES..].iter_mut().zip(total) {
                    *weight += -total;
                }
            }
        }
    }

    /// Adds the contributions of a block of units; returns its `-dw`.
    #[inline(always)]
    fn add_block<S: Simd<E>, T: Tanh, W: Sums>(
        &self,
        simd: S,
        block: usize,
        queries: &mut Operand<E>,
        keys: &mut Operand<E>,
    ) -> [E; UNIT_LANES] {
        let mut total = [E::ZERO; UNIT_LANES];
        for tile in query_tiles(queries.rows.len()) {
            let query = tile.start;
            let at = UnitTile { block, query };
            if tile.len() == QUERY_TILE {
                self.add_tile::<S, T, W, QUERY_TILE>(simd, at, queries, keys, &mut total);
            } else {
                self.add_tile::<S, T, W, 1>(simd, at, queries, keys, &mut total);
            }
        }
        total
    }

    /// Adds the contributions of a block of units of `Q` queries. Costs per term: three multiply-adds, an estimate, two
    /// products, and on another port up to three sums.
    #[inline(always)]
    fn add_tile<S: Simd<E>, T: Tanh, W: Sums, const Q: usize>(
        &self,
        simd: S,
        UnitTile { block, query }: UnitTile,
        queries: &mut Operand<E>,
        keys: &mut Operand<E>,
        total: &mut [E; UNIT_LANES],
    ) {
        let len = self.keys.len();
        let gradients: [&[E]; Q] =
            std::array::from_fn(|q| &self.gradient[(query + q) * self.stride..][..len]);
        let of_tile = query * UNIT_LANES..(query + Q) * UNIT_LANES;
        let of_keys = self.keys.start * UNIT_LANES..self.keys.end * UNIT_LANES;
        for lane in (0..UNIT_LANES).step_by(S::LANES) {
            let query_block = &queries.exponentials.block(block)[of_tile.clone()];
            let mut half_queries = [simd.zero(); Q];
            let mut query_sums = [simd.zero(); Q];
            for q in 0..Q {
                half_queries[q] = simd.load(&query_block[q * UNIT_LANES + lane..]);
            }
            let mut weight_sum = simd.zero();
            let key_rows = keys.exponentials.block(block)[of_keys.clone()].chunks_exact(UNIT_LANES);
            let sum_rows = keys.sums.block_mut(block)[of_keys.clone()].chunks_exact_mut(UNIT_LANES);
            for (j, (key, sum)) in key_rows.zip(sum_rows).enumerate() {
                let key = simd.load(&key[lane..]);
                let mut key_sum = if W::KEYS {
                    simd.load(&sum[lane..])
                } else {
                    simd.zero()
                };
                for q in 0..Q {
                    let gradient = gradients[q][j];
                    let negative_tanh = if T::SKIPS_ZERO && gradient == E::ZERO {
                        simd.zero()
                    } else {
                        T::negative_tanh(simd, half_queries[q], key, || Units {
                            query: queries.rows[query + q],
                            key: keys.rows[self.keys.start + j],
                            first: block * UNIT_LANES + lane,
                        })
                    };
                    let terms = Terms::of(simd, gradient, negative_tanh);
                    if W::KEYS {
                        key_sum = simd.add(key_sum, terms.row);
                    }
                    if W::QUERIES {
                        query_sums[q] = simd.add(query_sums[q], terms.row);
                        weight_sum = simd.add(weight_sum, terms.weight);
                    }
                }
                if W::KEYS {
                    simd.store(key_sum, &mut sum[lane..]);
                }
            }
            if W::QUERIES {
                let to = &mut queries.sums.block_mut(block)[of_tile.clone()];
                for q in 0..Q {
                    let to = &mut to[q * UNIT_LANES + lane..];
                    simd.store(simd.add(simd.load(to), query_sums[q]), to);
                }
                let to = &mut total[lane..];
                simd.store(simd.add(simd.load(to), weight_sum), to);
            }
        }
    }
}

/// A block of units and the first query of a tile.
#[derive(Clone, Copy)]
struct UnitTile {
    block: usize,
    query: usize,
}
