//! The scores of a tile of queries and keys: of dot products, and of additive attention.
//!
//! `tanh(a + b) = (E - 1) / (E + 1)` with `E = e^{2a} e^{2b}`: the exponentials are of one side each, and are taken
//! when a row is brought to shared memory. Two hidden units share a reciprocal:
//! `n1 / d1 = n1 d2 r` and `n2 / d2 = n2 d1 r` with `r = 1 / (d1 d2)`.
//!
//! Range: the product of two denominators and its reciprocal must be normal, so `2 (|a| + |b|) <= 43.6`. One side is
//! looked at before: where one of its elements is beyond [`NEAR`], the tile takes `tanh` of each sum. The other is cut
//! off at [`FAR`], which changes nothing: `tanh` of more than `FAR - NEAR` is 1 to rounding.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::math::{bounded, exp};
use crate::tiling::{Tiling, UNROLLED};

/// Up to here an element of the side that is looked at takes the fast path.
pub(crate) const NEAR: f32 = 6.4;
/// Where elements are cut off.
pub(crate) const FAR: f32 = 15.4;

/// How a pair of elements enters the score.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Form {
    /// `a b`
    Dot,
    /// `w tanh(a + b)`
    Additive,
}

/// Which rows of a tile.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Side {
    Queries,
    Keys,
}

impl Side {
    /// How many.
    pub(crate) const fn tile(self, tiling: Tiling) -> usize {
        match self {
            Self::Queries => tiling.query_tile(),
            Self::Keys => tiling.key_tile(),
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Queries => Self::Keys,
            Self::Keys => Self::Queries,
        }
    }
}

/// Rows of one matrix, of which a tile is computed.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct RowsAt {
    /// Where the first row of the tile begins.
    pub(crate) first: usize,
    /// The rows that there are.
    pub(crate) valid: usize,
}

/// Shared memory for [`scores`]: `[chunk, rows + 1]` of queries and of keys. The one more keeps the elements of a row
/// in different banks.
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
}

/// Adds to `sums`, `[rows, keys]` of this unit, the products of all pairs of a tile over `size` elements.
///
/// Begins with a barrier, so that all units must call it.
#[cube]
pub(crate) fn scores<F: Float>(
    sums: &mut Array<f32>,
    stage: &mut Stage,
    queries: &[F],
    query_rows: RowsAt,
    keys: &[F],
    key_rows: RowsAt,
    weight: &ComptimeOption<OwnedTensor<f32>>,
    size: usize,
    is_direct: bool,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let row_group = unit / tiling.key_groups;
    let key_group = unit % tiling.key_groups;
    let query_stride = comptime!(tiling.query_tile() + 1);
    let key_stride = comptime!(tiling.key_tile() + 1);
    let mut partial = Array::<f32>::new(comptime!(tiling.pairs()));
    for step in 0..size.div_ceil(tiling.chunk) {
        let column = step * tiling.chunk;
        sync_cube();
        bring::<F>(
            stage,
            queries,
            query_rows,
            size,
            column,
            Side::Queries,
            form,
            tiling,
        );
        bring::<F>(
            stage,
            keys,
            key_rows,
            size,
            column,
            Side::Keys,
            form,
            tiling,
        );
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
        match comptime!(form) {
            Form::Dot => {
                for block in 0..comptime!(tiling.chunk / UNROLLED) {
                    #[unroll]
                    for h in 0..UNROLLED {
                        let h = block * UNROLLED + h;
                        #[unroll]
                        for row in 0..tiling.rows {
                            let a = stage.queries[h * query_stride + row_group * tiling.rows + row];
                            #[unroll]
                            for key in 0..tiling.keys {
                                let at = key * tiling.key_groups + key_group;
                                let b = stage.keys[h * key_stride + at];
                                let pair = comptime!(row * tiling.keys + key);
                                partial[pair] = fma(a, b, partial[pair]);
                            }
                        }
                    }
                }
            }
            Form::Additive => {
                if is_direct {
                    for h in 0..min(tiling.chunk, size - column) {
                        #[unroll]
                        for row in 0..tiling.rows {
                            let at_row = row_group * tiling.rows + row;
                            let a = element::<F>(queries, query_rows, at_row, size, column + h);
                            #[unroll]
                            for key in 0..tiling.keys {
                                let at_key = key * tiling.key_groups + key_group;
                                let b = element::<F>(keys, key_rows, at_key, size, column + h);
                                let pair = comptime!(row * tiling.keys + key);
                                let e = exponential_of_sum(a + b);
                                let tanh = (e - 1.0f32) / (e + 1.0f32);
                                partial[pair] = fma(stage.weight[h], tanh, partial[pair]);
                            }
                        }
                    }
                } else {
                    for block in 0..comptime!(tiling.chunk / UNROLLED) {
                        #[unroll]
                        for half in 0..comptime!(UNROLLED / 2) {
                            let h = block * UNROLLED + 2 * half;
                            let w1 = stage.weight[h];
                            let w2 = stage.weight[h + 1];
                            #[unroll]
                            for row in 0..tiling.rows {
                                let at_row = h * query_stride + row_group * tiling.rows + row;
                                let a1 = stage.queries[at_row];
                                let a2 = stage.queries[at_row + query_stride];
                                #[unroll]
                                for key in 0..tiling.keys {
                                    let at_key =
                                        h * key_stride + key * tiling.key_groups + key_group;
                                    let b1 = stage.keys[at_key];
                                    let b2 = stage.keys[at_key + key_stride];
                                    let d1 = fma(a1, b1, 1.0f32);
                                    let d2 = fma(a2, b2, 1.0f32);
                                    let n1 = fma(a1, b1, -1.0f32) * d2;
                                    let n2 = fma(a2, b2, -1.0f32) * d1;
                                    let r = 1.0f32 / (d1 * d2);
                                    let pair = comptime!(row * tiling.keys + key);
                                    let sum = fma(w1, n1 * r, partial[pair]);
                                    partial[pair] = fma(w2, n2 * r, sum);
                                }
                            }
                        }
                    }
                }
            }
        }
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            sums[pair] += partial[pair];
        }
    }
}

/// Brings columns of the rows of a tile to the stage; 0 beyond the rows and the columns. Of the additive form, the
/// exponentials.
#[cube]
pub(crate) fn bring<F: Float>(
    stage: &mut Stage,
    from: &[F],
    at: RowsAt,
    size: usize,
    column: usize,
    #[comptime] side: Side,
    #[comptime] form: Form,
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
            if column + h < size {
                x = element::<F>(from, at, row, size, column + h);
            }
            if comptime!(form == Form::Additive) {
                x = exponential(x);
            }
            match comptime!(side) {
                Side::Queries => stage.queries[h * comptime!(rows + 1) + row] = x,
                Side::Keys => stage.keys[h * comptime!(rows + 1) + row] = x,
            }
        }
    }
}

/// An element of a row of a tile, 0 beyond its rows.
#[cube]
pub(crate) fn element<F: Float>(
    from: &[F],
    at: RowsAt,
    row: usize,
    size: usize,
    column: usize,
) -> f32 {
    let mut x = 0.0f32;
    if row < at.valid {
        x = f32::cast_from(from[at.first + row * size + column]);
    }
    x
}

/// `e^{2x}`, cut off.
#[cube]
pub(crate) fn exponential(x: f32) -> f32 {
    exp(2.0f32 * bounded(x, FAR))
}

/// `e^{2x}` of `a + b`, cut off.
#[cube]
pub(crate) fn exponential_of_sum(x: f32) -> f32 {
    exp(2.0f32 * bounded(x, 20.0f32))
}

/// Whether an element of the rows of a tile is beyond [`NEAR`], or NaN: the same for all units. Has barriers. Of dot
/// products it is all the same, and never so.
#[cube]
pub(crate) fn is_far<F: Float>(
    rows: &[F],
    at: RowsAt,
    size: usize,
    flag: &mut Shared<[u32]>,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
) -> bool {
    match comptime!(form) {
        Form::Dot => false.runtime(),
        Form::Additive => {
            let unit = UNIT_POS as usize;
            if unit == 0 {
                flag[0] = 0u32;
            }
            sync_cube();
            let mut index = unit;
            let mut is_far = false;
            while index < at.valid * size {
                let x = f32::cast_from(rows[at.first + index]);
                let is_near = x <= NEAR && x >= -NEAR;
                is_far = is_far || !is_near;
                index += comptime!(tiling.units());
            }
            if is_far {
                flag[0] = 1u32;
            }
            let flagged = workgroup_uniform_load(&flag[0]);
            // Only in WGSL has the load a barrier after it, too.
            sync_cube();
            flagged == 1u32
        }
    }
}
