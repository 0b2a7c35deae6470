//! The gradients of a tile of scores.
//!
//! With `g = d loss / d score` and `t = tanh(q + k)`, recomputed rather than stored:
//!
//! ```text
//! dq[i,u] = w[u] sum_j g (1 - t^2)     dk[j,u] = w[u] sum_i g (1 - t^2)     dw[u] = sum_ij g t
//! ```
//!
//! `-t = 1/x - 1` with `x = (1 + a c) / 2`, one multiply-add from `a / 2`. The hidden units are the lanes here: both
//! sums run over rows and stay in registers (over keys) or in the first-level cache (over queries).

use std::ops::Range;

use super::BLOCK;
use super::panel::Panel;
use super::range::{Path, Reach, complement, negative_tanh, negative_tanh_of_far};
use crate::Rows;
use crate::rows::Row;
use crate::simd::{Real, Simd};

/// Queries whose sums stay in registers while the keys go by: with four, an AVX2 machine's sixteen suffice.
const TILE: usize = 4;

/// Some rows of one head, queries or keys, and the sums that become their gradients.
#[derive(Default)]
pub(super) struct Side<'a, E> {
    /// The rows themselves, for the slow path.
    rows: Vec<Row<'a, E>>,
    /// `e^(2x)`, halved for queries.
    exponentials: Panel<E>,
    /// `sum g (1 - t^2)`
    sums: Panel<E>,
    /// Of each block of units.
    reach: Vec<Reach>,
}

impl<'a, E: Real> Side<'a, E> {
    /// Takes the rows `range` of one head in place of what was there; the sums are zero.
    #[inline(always)]
    fn fill<S: Simd<E>>(
        &mut self,
        simd: S,
        from: &Rows<'a, E>,
        [batch, head]: [usize; 2],
        range: Range<usize>,
        factor: E,
    ) {
        let [_, _, _, units] = from.shape();
        self.rows.clear();
        self.rows
            .extend(range.map(|row| from.row(batch, head, row)));
        self.exponentials.reset(self.rows.len(), units);
        self.sums.reset(self.rows.len(), units);
        self.reach.clear();
        self.reach.resize(units.div_ceil(BLOCK), Reach::Near);
        for (index, &row) in self.rows.iter().enumerate() {
            let exponentials = &mut self.exponentials;
            exponentials.fill_exponentials(simd, index, row, factor, &mut self.reach);
        }
    }

    /// Takes queries: their exponentials are halved.
    #[inline(always)]
    pub(super) fn fill_queries<S: Simd<E>>(
        &mut self,
        simd: S,
        from: &Rows<'a, E>,
        at: [usize; 2],
        range: Range<usize>,
    ) {
        self.fill(simd, from, at, range, E::from_f64(0.5));
    }

    /// Takes keys.
    #[inline(always)]
    pub(super) fn fill_keys<S: Simd<E>>(
        &mut self,
        simd: S,
        from: &Rows<'a, E>,
        at: [usize; 2],
        range: Range<usize>,
    ) {
        self.fill(simd, from, at, range, E::ONE);
    }

    /// Adds `weight` times the sums to the gradients of the rows, `[rows][units]`.
    #[inline(always)]
    pub(super) fn add_gradients_to(&self, weight: &[E], gradients: &mut [E]) {
        for (row, to) in gradients.chunks_exact_mut(weight.len().max(1)).enumerate() {
            self.sums.add_row_to(row, weight, to);
        }
    }
}

/// Adds what the scores of all queries and the keys `range` contribute to the sums of both sides and to `weight`,
/// `dw` `[units]`; without `ALL`, to those of the keys alone.
///
/// `grad` holds `d loss / d score`, `[queries][stride]`, its first column that of key `range.start`; it is 0 for
/// hidden pairs.
#[inline(always)]
pub(super) fn add_gradients<E: Real, S: Simd<E>, const ALL: bool>(
    simd: S,
    [queries, keys]: [&mut Side<E>; 2],
    range: Range<usize>,
    grad: &[E],
    stride: usize,
    weight: &mut [E],
) {
    let terms = Terms {
        range,
        grad,
        stride,
    };
    for block in 0..queries.reach.len() {
        let total = match queries.reach[block].path(keys.reach[block]) {
            Path::Fast => terms.add::<S, false, false, ALL>(simd, block, queries, keys),
            Path::Bounded => terms.add::<S, true, false, ALL>(simd, block, queries, keys),
            Path::Slow => terms.add::<S, true, true, ALL>(simd, block, queries, keys),
        };
        if ALL {
            for (weight, total) in weight[block * BLOCK..].iter_mut().zip(total) {
                *weight += -total;
            }
        }
    }
}

/// The gradients of the scores of some pairs.
struct Terms<'a, E> {
    /// Of the keys.
    range: Range<usize>,
    grad: &'a [E],
    stride: usize,
}

impl<E: Real> Terms<'_, E> {
    /// Adds what a block of units contributes; returns its `-dw`.
    #[inline(always)]
    fn add<S: Simd<E>, const FAR: bool, const SLOW: bool, const ALL: bool>(
        &self,
        simd: S,
        block: usize,
        queries: &mut Side<E>,
        keys: &mut Side<E>,
    ) -> [E; BLOCK] {
        let num_queries = queries.rows.len();
        let mut total = [E::ZERO; BLOCK];
        let mut first = 0;
        while first < num_queries {
            if first + TILE <= num_queries {
                let at = (block, first);
                self.tile::<S, TILE, FAR, SLOW, ALL>(simd, at, queries, keys, &mut total);
                first += TILE;
            } else {
                let at = (block, first);
                self.tile::<S, 1, FAR, SLOW, ALL>(simd, at, queries, keys, &mut total);
                first += 1;
            }
        }
        total
    }

    /// For each term: three multiply-adds, an estimate, two products, and on another port three sums, of which only the
    /// keys' without `ALL`.
    ///
    /// With `FAR`, some elements are not near; with `SLOW`, what must be is evaluated from `q + k`, all else in the same order. There a gradient of 0 adds nothing
    /// whatever the key holds, since it may be hidden.
    #[inline(always)]
    fn tile<S: Simd<E>, const Q: usize, const FAR: bool, const SLOW: bool, const ALL: bool>(
        &self,
        simd: S,
        (block, first): (usize, usize),
        queries: &mut Side<E>,
        keys: &mut Side<E>,
        total: &mut [E; BLOCK],
    ) {
        let Self {
            range,
            grad,
            stride,
        } = self;
        let len = range.len();
        let rows: [&[E]; Q] = std::array::from_fn(|q| &grad[(first + q) * stride..][..len]);
        let key_range = range.start * BLOCK..range.end * BLOCK;
        for lane in (0..BLOCK).step_by(S::LANES) {
            let query_block =
                &queries.exponentials.block(block)[first * BLOCK..(first + Q) * BLOCK];
            let mut query = [simd.zero(); Q];
            let mut query_sums = [simd.zero(); Q];
            for q in 0..Q {
                query[q] = simd.load(&query_block[q * BLOCK + lane..]);
            }
            let mut weight_sum = simd.zero();
            let key_rows = keys.exponentials.block(block)[key_range.clone()].chunks_exact(BLOCK);
            let sum_rows = keys.sums.block_mut(block)[key_range.clone()].chunks_exact_mut(BLOCK);
            for (j, (key, sum)) in key_rows.zip(sum_rows).enumerate() {
                let key = simd.load(&key[lane..]);
                let mut key_sum = simd.load(&sum[lane..]);
                for q in 0..Q {
                    let g = simd.splat(rows[q][j]);
                    let mut negative_tanh = match FAR {
                        true => negative_tanh_of_far(simd, query[q], key),
                        false => negative_tanh(simd, query[q], key),
                    };
                    if SLOW {
                        let query = queries.rows[first + q];
                        let key = keys.rows[range.start + j];
                        negative_tanh = match rows[q][j] == E::ZERO {
                            true => simd.zero(),
                            false => direct(simd, query, key, block * BLOCK + lane, negative_tanh),
                        };
                    }
                    let product = simd.mul(g, negative_tanh);
                    let term = simd.neg_mul_add(product, negative_tanh, g);
                    key_sum = simd.add(key_sum, term);
                    if ALL {
                        query_sums[q] = simd.add(query_sums[q], term);
                        weight_sum = simd.add(weight_sum, product);
                    }
                }
                simd.store(key_sum, &mut sum[lane..]);
            }
            if ALL {
                let to = &mut queries.sums.block_mut(block)[first * BLOCK..(first + Q) * BLOCK];
                for q in 0..Q {
                    let to = &mut to[q * BLOCK + lane..];
                    simd.store(simd.add(simd.load(to), query_sums[q]), to);
                }
                let to = &mut total[lane..];
                simd.store(simd.add(simd.load(to), weight_sum), to);
            }
        }
    }
}

/// `-tanh(query + key)` of the units from `first` on: `fast` where that is right.
#[inline(always)]
pub(super) fn direct<E: Real, S: Simd<E>>(
    simd: S,
    query: Row<E>,
    key: Row<E>,
    first: usize,
    fast: S::V,
) -> S::V {
    let units = first.min(query.len())..query.len().min(first + S::LANES);
    let mut both = [[E::ZERO; BLOCK]; 2];
    for (row, to) in [query, key].into_iter().zip(&mut both) {
        row.part(units.clone()).copy_to(&mut to[..units.len()]);
    }
    let [query, key] = &both;
    let mut inside = [E::ONE; BLOCK];
    for (inside, (query, key)) in inside.iter_mut().zip(query.iter().zip(key)) {
        if Reach::of(*query).path(Reach::of(*key)) == Path::Slow {
            *inside = E::ZERO;
        }
    }
    let x = simd.add(simd.load(query), simd.load(key));
    let r = complement(simd, x);
    let slow = simd.sub(simd.add(r, r), simd.splat(E::ONE));
    simd.select(simd.less(simd.zero(), simd.load(&inside)), fast, slow)
}
