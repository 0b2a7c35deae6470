//! The gradients of the rows and the weight, from the gradients of additive scores, tile by tile.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::host::mask::MASKED;
use crate::tile::operands::{Operands, ScoreKind};
use crate::tile::rows::{Rows, RowsAt};
use crate::tile::score_tile::{Stage, exponential, exponential_of_sum};
use crate::tile::tiling::{Side, Tiling, unrolled};
use crate::tile::{KeyTile, QueryTile, add_column};

/// `e^{2x}` beyond which `tanh` rounds to 1, `2^26`.
const SATURATED: f32 = 67_108_864.0;

/// The derivative of `tanh`, `4 E r r`, where `E = e^{2x}` and `r = 1 / (E + 1)`; 0 where `tanh` rounds to 1.
#[cube]
fn derivative(e: f32, r: f32) -> f32 {
    let is_saturated = e > SATURATED || e < 1.0f32 / SATURATED;
    select(is_saturated, 0.0f32, 4.0f32 * (e * r) * r)
}

/// A tile of additive scores `w . tanh(q + k)`, and their gradients `ds`.
#[derive(CubeType)]
pub(crate) struct AdditiveTile<'a, F: Float> {
    queries: Rows<'a, F>,
    keys: Rows<'a, F>,
    weight: &'a ComptimeOption<OwnedTensor<f32>>,
    /// `ds`, `[queries, keys]` of the tile, [`MASKED`] where masked.
    gradients: &'a Shared<[f32]>,
    /// Whether `tanh` is evaluated from each sum of query and key.
    is_direct: bool,
    /// Whether results are written instead of added.
    is_first: bool,
    #[cube(comptime)]
    tiling: Tiling,
}

#[cube]
impl<'a, F: Float> AdditiveTile<'a, F> {
    pub(crate) fn new(
        operands: &'a Operands<F>,
        query_tile: QueryTile,
        key_tile: KeyTile,
        gradients: &'a Shared<[f32]>,
        is_direct: bool,
        is_first: bool,
    ) -> AdditiveTile<'a, F> {
        AdditiveTile::<'a, F> {
            queries: query_tile.queries::<F>(operands),
            keys: key_tile.keys::<F>(operands),
            weight: &operands.weight,
            gradients,
            is_direct,
            is_first,
            tiling: comptime!(operands.tiling),
        }
    }

    /// Adds `w sum_j ds tanh'` to the gradients of the queries, and `sum_ij ds tanh` to the gradients of the weight, a
    /// row for each group of queries. A unit processes one column of the stage, for the queries of its group.
    pub(crate) fn add_to_queries(
        &self,
        to: &mut [f32],
        to_rows: RowsAt,
        to_weight: &mut [f32],
        weight_rows: RowsAt,
        stage: &mut Stage,
    ) {
        let tiling = comptime!(self.tiling);
        let unit = UNIT_POS as usize;
        let count = comptime!(tiling.gradient_rows());
        let group = unit / tiling.chunk;
        let size = to_rows.size;
        let mut sums = Array::<f32>::new(comptime!(count + 1));
        for step in 0..size.div_ceil(tiling.chunk) {
            let first_column = step * tiling.chunk;
            let column = first_column + unit % tiling.chunk;
            sync_cube();
            stage.load_tile::<F>(
                self.keys,
                first_column,
                Side::Keys,
                ScoreKind::Additive,
                tiling,
            );
            sync_cube();
            let first = group * count;
            if column < size && first < self.queries.at.valid {
                self.sums(&mut sums, &stage.keys, first, column, count, Side::Queries);
                let factor = element_of(self.weight, column);
                add_column(
                    to,
                    to_rows,
                    first,
                    column,
                    &sums,
                    factor,
                    self.is_first,
                    count,
                );
                let index = weight_rows.first + group * size + column;
                if self.is_first {
                    to_weight[index] = sums[count];
                } else {
                    to_weight[index] += sums[count];
                }
            }
        }
    }

    /// Adds to the gradients of the keys `w sum_i ds tanh'`. A unit processes one column of the stage, for the keys of
    /// its group.
    pub(crate) fn add_to_keys(&self, to: &mut [f32], to_rows: RowsAt, stage: &mut Stage) {
        let tiling = comptime!(self.tiling);
        let unit = UNIT_POS as usize;
        let count = comptime!(unrolled(tiling.gradient_keys()));
        let group = unit / tiling.chunk;
        let size = to_rows.size;
        let mut sums = Array::<f32>::new(comptime!(count + 1));
        for step in 0..size.div_ceil(tiling.chunk) {
            let first_column = step * tiling.chunk;
            let column = first_column + unit % tiling.chunk;
            sync_cube();
            stage.load_tile::<F>(
                self.queries,
                first_column,
                Side::Queries,
                ScoreKind::Additive,
                tiling,
            );
            sync_cube();
            for part in 0..comptime!(tiling.gradient_keys() / count) {
                let first = group * comptime!(tiling.gradient_keys()) + part * count;
                if column < size && first < self.keys.at.valid {
                    self.sums(&mut sums, &stage.queries, first, column, count, Side::Keys);
                    let factor = element_of(self.weight, column);
                    add_column(
                        to,
                        to_rows,
                        first,
                        column,
                        &sums,
                        factor,
                        self.is_first,
                        count,
                    );
                }
            }
        }
    }

    /// Sums of one column for `count` rows of one side, from the `first` one on: `sum ds tanh'` over the other side,
    /// whose `exponentials` are in the stage. For queries, followed by `sum ds tanh` over both sides.
    fn sums(
        &self,
        sums: &mut Array<f32>,
        exponentials: &Shared<[f32]>,
        first: usize,
        column: usize,
        #[comptime] count: usize,
        #[comptime] side: Side,
    ) {
        let tiling = comptime!(self.tiling);
        let own = match comptime!(side) {
            Side::Queries => self.queries,
            Side::Keys => self.keys,
        };
        let others = match comptime!(side) {
            Side::Queries => self.keys,
            Side::Keys => self.queries,
        };
        let others_count = comptime!(side.other().tile(tiling));
        let at_once = comptime!(unrolled(others_count));
        let mut mine = Array::<f32>::new(count);
        #[unroll]
        for n in 0..count {
            mine[n] = own.element(first + n, column);
            if !self.is_direct {
                mine[n] = exponential(mine[n]);
            }
            sums[n] = 0.0f32;
        }
        sums[count] = 0.0f32;
        for block in 0..comptime!(others_count / at_once) {
            #[unroll]
            for m in 0..at_once {
                // Beyond the rows everything is masked.
                let row = block * at_once + m;
                let at = column % tiling.chunk * comptime!(others_count + 1) + row;
                let mut other = exponentials[at];
                if self.is_direct {
                    other = others.element(row, column);
                }
                #[unroll]
                for n in 0..count {
                    let pair = match comptime!(side) {
                        Side::Queries => {
                            self.gradients[(first + n) * comptime!(tiling.key_tile()) + row]
                        }
                        Side::Keys => {
                            self.gradients[row * comptime!(tiling.key_tile()) + first + n]
                        }
                    };
                    let is_masked = pair == MASKED;
                    let mut e = mine[n] * other;
                    if self.is_direct {
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
