//! Scores of a tile of queries and keys: dot products, and additive scores.
//!
//! `tanh(a + b) = (E - 1) / (E + 1)` with `E = e^{2a} e^{2b}`: the exponentials depend on one side each, and are
//! computed when a row is loaded to shared memory. Two hidden units share a reciprocal: `n1 / d1 = n1 d2 r` and `n2 /
//! d2 = n2 d1 r` with `r = 1 / (d1 d2)`.
//!
//! Range: the product of two denominators and its reciprocal must be normal, so `2 (|a| + |b|) <= 43.6`. The queries of
//! a tile are range-checked once: if an element is beyond [`FAST_RANGE`], the tile evaluates `tanh` of each sum. The
//! other operand is clamped to [`CLAMP`], which changes nothing: `tanh` of more than `CLAMP - FAST_RANGE` rounds to 1.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::tile::math::{bounded, exp};
use crate::tile::operands::ScoreKind;
use crate::tile::rows::Rows;
use crate::tile::tiling::{Side, Tiling, UNROLLED};

/// The range of a query's elements in which the product of exponentials neither overflows nor underflows.
const FAST_RANGE: f32 = 6.4;
/// The range to which elements are clamped before their exponential is computed.
const CLAMP: f32 = 15.4;

/// Shared memory for [`add_scores`]: `[chunk, rows + 1]` of queries and of keys. The additional element puts the
/// elements of a row into different banks.
#[derive(CubeType)]
pub(crate) struct Stage {
    pub(crate) queries: Shared<[f32]>,
    pub(crate) keys: Shared<[f32]>,
    weight: Shared<[f32]>,
}

#[cube]
impl Stage {
    pub(crate) fn new(#[comptime] tiling: Tiling) -> Stage {
        Stage {
            queries: Shared::new_slice(comptime!(tiling.chunk * (tiling.query_tile() + 1))),
            keys: Shared::new_slice(comptime!(tiling.chunk * (tiling.key_tile() + 1))),
            weight: Shared::new_slice(comptime!(tiling.chunk)),
        }
    }

    /// Loads columns of a tile's rows to the stage, with 0 beyond the rows and columns; for additive scores their
    /// exponentials.
    pub(crate) fn load_tile<F: Float>(
        &mut self,
        from: Rows<F>,
        column: usize,
        #[comptime] side: Side,
        #[comptime] kind: ScoreKind,
        #[comptime] tiling: Tiling,
    ) {
        let rows = comptime!(side.tile(tiling));
        let count = comptime!(rows * tiling.chunk);
        let units = comptime!(tiling.units());
        #[unroll]
        for n in 0..comptime!(count.div_ceil(units)) {
            let index = n * units + UNIT_POS as usize;
            if index < count {
                let row = index / tiling.chunk;
                let h = index % tiling.chunk;
                let mut x = 0.0f32;
                if column + h < from.at.size {
                    x = from.element(row, column + h);
                }
                if comptime!(kind == ScoreKind::Additive) {
                    x = exponential(x);
                }
                match comptime!(side) {
                    Side::Queries => self.queries[h * comptime!(rows + 1) + row] = x,
                    Side::Keys => self.keys[h * comptime!(rows + 1) + row] = x,
                }
            }
        }
    }

    /// Adds `sum_h q_h k_h` over the columns in the stage.
    fn add_products(&self, sums: &mut Array<f32>, #[comptime] tiling: Tiling) {
        let unit = UNIT_POS as usize;
        let row_group = unit / tiling.key_groups;
        let key_group = unit % tiling.key_groups;
        let query_stride = comptime!(tiling.query_tile() + 1);
        let key_stride = comptime!(tiling.key_tile() + 1);
        for block in 0..comptime!(tiling.chunk / UNROLLED) {
            #[unroll]
            for h in 0..UNROLLED {
                let h = block * UNROLLED + h;
                #[unroll]
                for row in 0..tiling.rows {
                    let a = self.queries[h * query_stride + row_group * tiling.rows + row];
                    #[unroll]
                    for key in 0..tiling.keys {
                        let at = key * tiling.key_groups + key_group;
                        let b = self.keys[h * key_stride + at];
                        let pair = comptime!(row * tiling.keys + key);
                        sums[pair] = fma(a, b, sums[pair]);
                    }
                }
            }
        }
    }

    /// Adds `sum_h w_h tanh(q_h + k_h)` over the columns in the stage, from their exponentials.
    fn add_tanh(&self, sums: &mut Array<f32>, #[comptime] tiling: Tiling) {
        let unit = UNIT_POS as usize;
        let row_group = unit / tiling.key_groups;
        let key_group = unit % tiling.key_groups;
        let query_stride = comptime!(tiling.query_tile() + 1);
        let key_stride = comptime!(tiling.key_tile() + 1);
        for block in 0..comptime!(tiling.chunk / UNROLLED) {
            #[unroll]
            for half in 0..comptime!(UNROLLED / 2) {
                let h = block * UNROLLED + 2 * half;
                let w1 = self.weight[h];
                let w2 = self.weight[h + 1];
                #[unroll]
                for row in 0..tiling.rows {
                    let at_row = h * query_stride + row_group * tiling.rows + row;
                    let a1 = self.queries[at_row];
                    let a2 = self.queries[at_row + query_stride];
                    #[unroll]
                    for key in 0..tiling.keys {
                        let at_key = h * key_stride + key * tiling.key_groups + key_group;
                        let b1 = self.keys[at_key];
                        let b2 = self.keys[at_key + key_stride];
                        let d1 = fma(a1, b1, 1.0f32);
                        let d2 = fma(a2, b2, 1.0f32);
                        let n1 = fma(a1, b1, -1.0f32) * d2;
                        let n2 = fma(a2, b2, -1.0f32) * d1;
                        let r = 1.0f32 / (d1 * d2);
                        let pair = comptime!(row * tiling.keys + key);
                        let sum = fma(w1, n1 * r, sums[pair]);
                        sums[pair] = fma(w2, n2 * r, sum);
                    }
                }
            }
        }
    }

    /// Adds `sum_h w_h tanh(q_h + k_h)` like `add_tanh`, but with each `tanh` computed from its sum.
    fn add_tanh_directly<F: Float>(
        &self,
        sums: &mut Array<f32>,
        queries: Rows<F>,
        keys: Rows<F>,
        first_column: usize,
        #[comptime] tiling: Tiling,
    ) {
        let unit = UNIT_POS as usize;
        let row_group = unit / tiling.key_groups;
        let key_group = unit % tiling.key_groups;
        for h in 0..min(tiling.chunk, queries.at.size - first_column) {
            #[unroll]
            for row in 0..tiling.rows {
                let a = queries.element(row_group * tiling.rows + row, first_column + h);
                #[unroll]
                for key in 0..tiling.keys {
                    let b = keys.element(key * tiling.key_groups + key_group, first_column + h);
                    let pair = comptime!(row * tiling.keys + key);
                    let e = exponential_of_sum(a + b);
                    let tanh = (e - 1.0f32) / (e + 1.0f32);
                    sums[pair] = fma(self.weight[h], tanh, sums[pair]);
                }
            }
        }
    }
}

/// Adds the scores of all pairs of a tile, without scale and bias, to `sums`, `[rows, keys]` of this unit.
///
/// It begins with a barrier, so all units must call it.
#[cube]
pub(crate) fn add_scores<F: Float>(
    sums: &mut Array<f32>,
    stage: &mut Stage,
    queries: Rows<F>,
    keys: Rows<F>,
    weight: &ComptimeOption<OwnedTensor<f32>>,
    is_direct: bool,
    #[comptime] kind: ScoreKind,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let size = queries.at.size;
    let mut partial = Array::<f32>::new(comptime!(tiling.pairs()));
    for step in 0..size.div_ceil(tiling.chunk) {
        let column = step * tiling.chunk;
        sync_cube();
        stage.load_tile::<F>(queries, column, Side::Queries, kind, tiling);
        stage.load_tile::<F>(keys, column, Side::Keys, kind, tiling);
        if unit < tiling.chunk {
            #[comptime]
            match weight {
                ComptimeOption::Some(weight) => {
                    let is_inside = column + unit < size;
                    stage.weight[unit] = if is_inside {
                        weight[column + unit]
                    } else {
                        0.0f32
                    };
                }
                ComptimeOption::None => {}
            }
        }
        sync_cube();
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            partial[pair] = 0.0f32;
        }
        match comptime!(kind) {
            ScoreKind::Dot => stage.add_products(&mut partial, tiling),
            ScoreKind::Additive => {
                if is_direct {
                    stage.add_tanh_directly::<F>(&mut partial, queries, keys, column, tiling);
                } else {
                    stage.add_tanh(&mut partial, tiling);
                }
            }
        }
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            sums[pair] += partial[pair];
        }
    }
}

/// `e^{2x}` of an element, clamped.
#[cube]
pub(crate) fn exponential(x: f32) -> f32 {
    exp(2.0f32 * bounded(x, CLAMP))
}

/// `e^{2x}` of a sum of two elements, clamped.
#[cube]
pub(crate) fn exponential_of_sum(x: f32) -> f32 {
    exp(2.0f32 * bounded(x, 20.0f32))
}

/// Whether an element of a tile's rows is beyond [`FAST_RANGE`], or NaN: the same for all units. Has barriers, except
/// for dot products, for which it is false.
#[cube]
pub(crate) fn needs_direct_tanh<F: Float>(
    rows: Rows<F>,
    flag: &mut Shared<[u32]>,
    #[comptime] kind: ScoreKind,
    #[comptime] tiling: Tiling,
) -> bool {
    match comptime!(kind) {
        ScoreKind::Dot => false.runtime(),
        ScoreKind::Additive => {
            let unit = UNIT_POS as usize;
            if unit == 0 {
                flag[0] = 0u32;
            }
            sync_cube();
            let mut index = unit;
            let mut is_beyond = false;
            while index < rows.at.valid * rows.at.size {
                let x = f32::cast_from(rows.elements[rows.at.first + index]);
                let is_within = x <= FAST_RANGE && x >= -FAST_RANGE;
                is_beyond = is_beyond || !is_within;
                index += comptime!(tiling.units());
            }
            if is_beyond {
                flag[0] = 1u32;
            }
            let flagged = workgroup_uniform_load(&flag[0]);
            // Only in WGSL does the load include a barrier after it.
            sync_cube();
            flagged == 1u32
        }
    }
}
