//! The gradients of the scores of a tile, and those of additive scores' rows and weight.
//!
//! With `p` the weight, `f` its dropout factor, `C` the context: `dp = dC . v`, `D = dC . C`, `ds = p (f dp - D)`.
//! Scores and weights are computed again, from what the forward pass noted of each query.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::mask::Mask;
use super::math::exp;
use super::pairs::{
    Form, RowsAt, Stage, bring_keys, bring_queries, element, exponential, exponential_of_sum,
    scores,
};
use super::philox::WeightIndex;
use super::problem::{Dropout, Sizes};
use super::tile::{MASKED, TileAt, UNROLLED, masked_scores};
use super::tiling::Tiling;

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
    query_rows: RowsAt,
    keys: &[F],
    key_rows: RowsAt,
    values: &[F],
    value_rows: RowsAt,
    weight: &ComptimeOption<OwnedTensor<f32>>,
    bias: &ComptimeOption<OwnedTensor<f32>>,
    gradient: &[F],
    gradient_rows: RowsAt,
    mask: &Mask,
    dropout: &Dropout,
    noted: &Noted,
    at: TileAt,
    sizes: Sizes,
    is_direct: bool,
    #[comptime] source: Source,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let query_row = (at.batch * sizes.heads + at.head) * sizes.queries + at.first_query;
    #[unroll]
    for pair in 0..comptime!(tiling.pairs()) {
        weights[pair] = 0.0f32;
        gradients[pair] = 0.0f32;
    }
    match comptime!(source) {
        Source::Context => {
            scores::<F>(
                weights, stage, queries, query_rows, keys, key_rows, weight, sizes.size, is_direct,
                form, tiling,
            );
            let none = ComptimeOption::new_None();
            scores::<F>(
                gradients,
                stage,
                gradient,
                gradient_rows,
                values,
                value_rows,
                &none,
                sizes.value_size,
                false,
                Form::Dot,
                tiling,
            );
        }
        Source::Given => {}
    }
    masked_scores(weights, at, mask, bias, sizes, tiling);
    #[unroll]
    for row in 0..tiling.rows {
        let tile_row = unit / tiling.key_groups * tiling.rows + row;
        // Beyond the queries all is masked.
        let tile_row = min(tile_row, sizes.queries - 1 - at.first_query);
        #[unroll]
        for key in 0..tiling.keys {
            let column = at.first_key + key * tiling.key_groups + unit % tiling.key_groups;
            let pair = comptime!(row * tiling.keys + key);
            if weights[pair] <= MASKED {
                gradients[pair] = MASKED;
            } else {
                match comptime!(source) {
                    Source::Context => {
                        let row = query_row + tile_row;
                        let weight =
                            exp(weights[pair] - noted.maximum(row)) * noted.reciprocal(row);
                        let at = WeightIndex {
                            batch: at.batch as u32,
                            head: at.head as u32,
                            query: (at.first_query + tile_row) as u32,
                            key: column as u32,
                        };
                        let factor = dropout.factor(&at);
                        let difference = fma(factor, gradients[pair], -noted.total(row));
                        gradients[pair] = weight * difference;
                        weights[pair] = weight * factor;
                    }
                    Source::Given => {
                        let index = gradient_rows.first + tile_row * sizes.keys + column;
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
/// queries, `sum_ij ds tanh`. A unit has one column of the stage and `query_tile chunk / units` queries, or one.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(super) fn add_to_additive_queries<F: Float>(
    to: &mut [f32],
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
    let rows = comptime!(tiling.gradient_rows());
    let key_stride = comptime!(tiling.key_tile() + 1);
    let at_column = unit % tiling.chunk;
    let group = unit / tiling.chunk;
    let mut mine = Array::<f32>::new(rows);
    let mut sums = Array::<f32>::new(rows);
    for step in 0..size.div_ceil(tiling.chunk) {
        let first_column = step * tiling.chunk;
        let column = first_column + at_column;
        sync_cube();
        bring_keys::<F>(
            stage,
            keys,
            key_rows,
            size,
            first_column,
            Form::Additive,
            tiling,
        );
        sync_cube();
        if column < size && group * rows < query_rows.valid {
            #[unroll]
            for n in 0..rows {
                mine[n] = element::<F>(queries, query_rows, group * rows + n, size, column);
                if !is_direct {
                    mine[n] = exponential(mine[n]);
                }
                sums[n] = 0.0f32;
            }
            let mut of_weight = 0.0f32;
            for block in 0..comptime!(tiling.key_tile() / UNROLLED) {
                #[unroll]
                for key in 0..UNROLLED {
                    // Beyond the keys all is masked.
                    let key = block * UNROLLED + key;
                    let mut other = stage.keys[at_column * key_stride + key];
                    if is_direct {
                        other = element::<F>(keys, key_rows, key, size, column);
                    }
                    #[unroll]
                    for n in 0..rows {
                        let at = (group * rows + n) * comptime!(tiling.key_tile()) + key;
                        let pair = pairs[at];
                        let is_masked = pair == MASKED;
                        let mut e = mine[n] * other;
                        if is_direct {
                            e = exponential_of_sum(mine[n] + other);
                        }
                        let r = 1.0f32 / (e + 1.0f32);
                        let tanh = (e - 1.0f32) * r;
                        sums[n] += select(is_masked, 0.0f32, pair * derivative(e, r));
                        of_weight += select(is_masked, 0.0f32, pair * tanh);
                    }
                }
            }
            let factor = element_of(weight, column);
            #[unroll]
            for n in 0..rows {
                let row = group * rows + n;
                if row < query_rows.valid {
                    let index = query_rows.first + row * size + column;
                    let sum = factor * sums[n];
                    if is_first {
                        to[index] = sum;
                    } else {
                        to[index] += sum;
                    }
                }
            }
            let index = (weight_row + group) * size + column;
            if is_first {
                to_weight[index] = of_weight;
            } else {
                to_weight[index] += of_weight;
            }
        }
    }
}

/// Adds to the gradients of a tile's keys `w sum_i ds tanh'`. A unit has one column of the stage and
/// `key_tile chunk / units` keys.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(super) fn add_to_additive_keys<F: Float>(
    to: &mut [f32],
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
    let count = comptime!(tiling.gradient_keys());
    let query_stride = comptime!(tiling.query_tile() + 1);
    let at_column = unit % tiling.chunk;
    let group = unit / tiling.chunk;
    let mut mine = Array::<f32>::new(count);
    let mut sums = Array::<f32>::new(count);
    for step in 0..size.div_ceil(tiling.chunk) {
        let first_column = step * tiling.chunk;
        let column = first_column + at_column;
        sync_cube();
        bring_queries::<F>(
            stage,
            queries,
            query_rows,
            size,
            first_column,
            Form::Additive,
            tiling,
        );
        sync_cube();
        if column < size && group * count < key_rows.valid {
            #[unroll]
            for n in 0..count {
                mine[n] = element::<F>(keys, key_rows, group * count + n, size, column);
                if !is_direct {
                    mine[n] = exponential(mine[n]);
                }
                sums[n] = 0.0f32;
            }
            for block in 0..comptime!(tiling.query_tile() / UNROLLED) {
                #[unroll]
                for row in 0..UNROLLED {
                    // Beyond the queries all is masked.
                    let row = block * UNROLLED + row;
                    let mut other = stage.rows[at_column * query_stride + row];
                    if is_direct {
                        other = element::<F>(queries, query_rows, row, size, column);
                    }
                    #[unroll]
                    for n in 0..count {
                        let pair = pairs[row * comptime!(tiling.key_tile()) + group * count + n];
                        let mut e = mine[n] * other;
                        if is_direct {
                            e = exponential_of_sum(mine[n] + other);
                        }
                        let r = 1.0f32 / (e + 1.0f32);
                        sums[n] += select(pair == MASKED, 0.0f32, pair * derivative(e, r));
                    }
                }
            }
            let factor = element_of(weight, column);
            #[unroll]
            for n in 0..count {
                if group * count + n < key_rows.valid {
                    let index = key_rows.first + (group * count + n) * size + column;
                    let sum = factor * sums[n];
                    if is_first {
                        to[index] = sum;
                    } else {
                        to[index] += sum;
                    }
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
