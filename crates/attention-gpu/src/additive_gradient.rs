//! From the gradients of additive scores to those of the rows and of the weight, tile by tile.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::pairs::{Form, RowsAt, Side, Stage, bring, element, exponential, exponential_of_sum};
use crate::tile::{MASKED, add_column};
use crate::tiling::{Tiling, unrolled};

/// `e^{2x}` beyond which `tanh` is 1 to rounding, `2^26`.
const SATURATED: f32 = 67_108_864.0;

/// The derivative of `tanh`, `4 E r r`, where `E = e^{2x}` and `r = 1 / (E + 1)`; 0 where `tanh` is 1 to rounding.
#[cube]
fn derivative(e: f32, r: f32) -> f32 {
    let is_saturated = e > SATURATED || e < 1.0f32 / SATURATED;
    select(is_saturated, 0.0f32, 4.0f32 * (e * r) * r)
}

/// Adds to the gradients of a tile's queries `w sum_j ds tanh'`, and to those of the weight, a row for each group of
/// queries, `sum_ij ds tanh`. A unit has one column of the stage, and the queries of its group.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(crate) fn add_to_additive_queries<F: Float>(
    to: &mut [f32],
    to_rows: RowsAt,
    to_weight: &mut [f32],
    weight_row: usize,
    stage: &mut Stage,
    pairs: &Shared<[f32]>,
    queries: &[F],
    query_rows: RowsAt,
    keys: &[F],
    key_rows: RowsAt,
    weight: &ComptimeOption<OwnedTensor<f32>>,
    size: usize,
    is_direct: bool,
    is_first: bool,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let count = comptime!(tiling.gradient_rows());
    let group = unit / tiling.chunk;
    let mut sums = Array::<f32>::new(comptime!(count + 1));
    for step in 0..size.div_ceil(tiling.chunk) {
        let first_column = step * tiling.chunk;
        let column = first_column + unit % tiling.chunk;
        sync_cube();
        bring::<F>(
            stage,
            keys,
            key_rows,
            size,
            first_column,
            Side::Keys,
            Form::Additive,
            tiling,
        );
        sync_cube();
        if column < size && group * count < query_rows.valid {
            additive_sums::<F>(
                &mut sums,
                &stage.keys,
                pairs,
                queries,
                query_rows,
                group * count,
                keys,
                key_rows,
                size,
                column,
                is_direct,
                count,
                Side::Queries,
                tiling,
            );
            let factor = element_of(weight, column);
            let first = group * count;
            add_column(
                to, to_rows, first, column, size, &sums, factor, is_first, count,
            );
            let index = (weight_row + group) * size + column;
            if is_first {
                to_weight[index] = sums[count];
            } else {
                to_weight[index] += sums[count];
            }
        }
    }
}

/// Adds to the gradients of a tile's keys `w sum_i ds tanh'`. A unit has one column of the stage, and the keys of its
/// group.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(crate) fn add_to_additive_keys<F: Float>(
    to: &mut [f32],
    to_rows: RowsAt,
    stage: &mut Stage,
    pairs: &Shared<[f32]>,
    queries: &[F],
    query_rows: RowsAt,
    keys: &[F],
    key_rows: RowsAt,
    weight: &ComptimeOption<OwnedTensor<f32>>,
    size: usize,
    is_direct: bool,
    is_first: bool,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let count = comptime!(unrolled(tiling.gradient_keys()));
    let group = unit / tiling.chunk;
    let mut sums = Array::<f32>::new(comptime!(count + 1));
    for step in 0..size.div_ceil(tiling.chunk) {
        let first_column = step * tiling.chunk;
        let column = first_column + unit % tiling.chunk;
        sync_cube();
        bring::<F>(
            stage,
            queries,
            query_rows,
            size,
            first_column,
            Side::Queries,
            Form::Additive,
            tiling,
        );
        sync_cube();
        for part in 0..comptime!(tiling.gradient_keys() / count) {
            let first = group * comptime!(tiling.gradient_keys()) + part * count;
            if column < size && first < key_rows.valid {
                additive_sums::<F>(
                    &mut sums,
                    &stage.queries,
                    pairs,
                    keys,
                    key_rows,
                    first,
                    queries,
                    query_rows,
                    size,
                    column,
                    is_direct,
                    count,
                    Side::Keys,
                    tiling,
                );
                let factor = element_of(weight, column);
                add_column(
                    to, to_rows, first, column, size, &sums, factor, is_first, count,
                );
            }
        }
    }
}

/// Of `count` rows of one side of a tile, from the `first` one on, in one column: `sum ds tanh'` over the other side,
/// with its exponentials from the stage. Of queries, after these, `sum ds tanh` over both.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
fn additive_sums<F: Float>(
    sums: &mut Array<f32>,
    exponentials: &Shared<[f32]>,
    pairs: &Shared<[f32]>,
    own: &[F],
    own_rows: RowsAt,
    first: usize,
    others: &[F],
    other_rows: RowsAt,
    size: usize,
    column: usize,
    is_direct: bool,
    #[comptime] count: usize,
    #[comptime] side: Side,
    #[comptime] tiling: Tiling,
) {
    let others_count = comptime!(side.other().tile(tiling));
    let at_once = comptime!(unrolled(others_count));
    let mut mine = Array::<f32>::new(count);
    #[unroll]
    for n in 0..count {
        mine[n] = element::<F>(own, own_rows, first + n, size, column);
        if !is_direct {
            mine[n] = exponential(mine[n]);
        }
        sums[n] = 0.0f32;
    }
    sums[count] = 0.0f32;
    for block in 0..comptime!(others_count / at_once) {
        #[unroll]
        for m in 0..at_once {
            // Beyond the rows all is masked.
            let row = block * at_once + m;
            let at = column % tiling.chunk * comptime!(others_count + 1) + row;
            let mut other = exponentials[at];
            if is_direct {
                other = element::<F>(others, other_rows, row, size, column);
            }
            #[unroll]
            for n in 0..count {
                let pair = match comptime!(side) {
                    Side::Queries => pairs[(first + n) * comptime!(tiling.key_tile()) + row],
                    Side::Keys => pairs[row * comptime!(tiling.key_tile()) + first + n],
                };
                let is_masked = pair == MASKED;
                let mut e = mine[n] * other;
                if is_direct {
                    e = exponential_of_sum(mine[n] + other);
                }
                let r = 1.0f32 / (e + 1.0f32);
                sums[n] += select(is_masked, 0.0f32, pair * derivative(e, r));
                if comptime!(side == Side::Queries) {
                    sums[count] += select(is_masked, 0.0f32, pair * ((e - 1.0f32) * r));
                }
            }
        }
    }
}

/// An element of the weight.
#[cube]
fn element_of(weight: &ComptimeOption<OwnedTensor<f32>>, column: usize) -> f32 {
    #[comptime]
    match weight {
        ComptimeOption::Some(weight) => weight[column],
        ComptimeOption::None => 0.0f32.runtime(),
    }
}
