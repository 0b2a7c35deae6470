//! The gradients of the scores of a tile, and those of additive scores' rows and weight.
//!
//! With `p` the weight, `f` its dropout factor, `C` the context: `dp = dC . v`, `D = dC . C`, `ds = p (f dp - D)`.
//! Scores and weights are computed again, from what the forward pass noted of each query.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::mask::Mask;
use super::math::exp;
use super::pairs::{
    Form, RowsAt, Side, Stage, bring, element, exponential, exponential_of_sum, scores,
};
use super::philox::WeightIndex;
use super::problem::{Dropout, Sizes};
use super::tile::{KeyTile, MASKED, QueryTile, masked_scores};
use super::tiling::{Tiling, unrolled};

/// `e^{2x}` beyond which `tanh` is 1 to rounding, `2^26`.
const SATURATED: f32 = 67_108_864.0;

/// What the gradients of scores are made of.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) enum Source {
    /// The gradient of the context.
    Context,
    /// They are given.
    Given,
}

/// Of [`Source::Context`].
#[derive(CubeType, CubeLaunch)]
pub(super) struct Noted {
    /// Of each query, the greatest score and the reciprocal of the sum of exponentials.
    pub(super) statistics: ComptimeOption<OwnedTensor<f32>>,
    /// Of each query, `D`.
    pub(super) totals: ComptimeOption<OwnedTensor<f32>>,
}

#[cube]
impl Noted {
    fn maximum(&self, row: usize) -> f32 {
        #[comptime]
        match &self.statistics {
            ComptimeOption::Some(statistics) => statistics[2 * row],
            ComptimeOption::None => 0.0f32.runtime(),
        }
    }

    fn reciprocal(&self, row: usize) -> f32 {
        #[comptime]
        match &self.statistics {
            ComptimeOption::Some(statistics) => statistics[2 * row + 1],
            ComptimeOption::None => 0.0f32.runtime(),
        }
    }

    fn total(&self, row: usize) -> f32 {
        #[comptime]
        match &self.totals {
            ComptimeOption::Some(totals) => totals[row],
            ComptimeOption::None => 0.0f32.runtime(),
        }
    }
}

/// Of the pairs of this unit, the weights after dropout, and the gradients of the scores; [`MASKED`] where masked.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(super) fn score_gradients<F: Float>(
    weights: &mut Array<f32>,
    gradients: &mut Array<f32>,
    stage: &mut Stage,
    queries: &[F],
    query_tile: QueryTile,
    keys: &[F],
    key_tile: KeyTile,
    values: &[F],
    weight: &ComptimeOption<OwnedTensor<f32>>,
    bias: &ComptimeOption<OwnedTensor<f32>>,
    gradient: &[F],
    mask: &Mask,
    dropout: &Dropout,
    noted: &Noted,
    sizes: Sizes,
    is_direct: bool,
    #[comptime] source: Source,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    #[unroll]
    for pair in 0..comptime!(tiling.pairs()) {
        weights[pair] = 0.0f32;
        gradients[pair] = 0.0f32;
    }
    match comptime!(source) {
        Source::Context => {
            scores::<F>(
                weights,
                stage,
                queries,
                query_tile.rows(sizes.size),
                keys,
                key_tile.rows(sizes.size),
                weight,
                sizes.size,
                is_direct,
                form,
                tiling,
            );
            let none = ComptimeOption::new_None();
            scores::<F>(
                gradients,
                stage,
                gradient,
                query_tile.rows(sizes.value_size),
                values,
                key_tile.rows(sizes.value_size),
                &none,
                sizes.value_size,
                false,
                Form::Dot,
                tiling,
            );
        }
        Source::Given => {}
    }
    masked_scores(weights, query_tile, key_tile, mask, bias, sizes, tiling);
    #[unroll]
    for row in 0..tiling.rows {
        let tile_row = unit / tiling.key_groups * tiling.rows + row;
        // Beyond the queries all is masked.
        let tile_row = min(tile_row, query_tile.valid - 1);
        #[unroll]
        for key in 0..tiling.keys {
            let column = key_tile.first + key * tiling.key_groups + unit % tiling.key_groups;
            let pair = comptime!(row * tiling.keys + key);
            if weights[pair] <= MASKED {
                // It may be minus infinity.
                weights[pair] = MASKED;
                gradients[pair] = MASKED;
            } else {
                match comptime!(source) {
                    Source::Context => {
                        let row = query_tile.row + tile_row;
                        let weight =
                            exp(weights[pair] - noted.maximum(row)) * noted.reciprocal(row);
                        let at = WeightIndex {
                            batch: query_tile.batch as u32,
                            head: query_tile.head as u32,
                            query: (query_tile.first + tile_row) as u32,
                            key: column as u32,
                        };
                        let factor = dropout.factor(&at);
                        let difference = fma(factor, gradients[pair], -noted.total(row));
                        gradients[pair] = weight * difference;
                        weights[pair] = weight * factor;
                    }
                    Source::Given => {
                        let index = (query_tile.row + tile_row) * sizes.keys + column;
                        gradients[pair] = f32::cast_from(gradient[index]);
                    }
                }
            }
        }
    }
}

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
pub(super) fn add_to_additive_queries<F: Float>(
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
pub(super) fn add_to_additive_keys<F: Float>(
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

/// Adds `factor sums` to one column of `count` rows, or puts them there if these hold nothing yet.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
fn add_column(
    to: &mut [f32],
    rows: RowsAt,
    first: usize,
    column: usize,
    size: usize,
    sums: &Array<f32>,
    factor: f32,
    is_first: bool,
    #[comptime] count: usize,
) {
    #[unroll]
    for n in 0..count {
        if first + n < rows.valid {
            let index = rows.first + (first + n) * size + column;
            let sum = factor * sums[n];
            if is_first {
                to[index] = sum;
            } else {
                to[index] += sum;
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
