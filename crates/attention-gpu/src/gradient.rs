//! The gradients of the scores of a tile.
//!
//! With `p` the weight, `f` its dropout factor, `C` the context: `dp = dC . v`, `D = dC . C`, `ds = p (f dp - D)`.
//! Scores and weights are computed again, from what the forward pass noted of each query.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::mask::Mask;
use crate::math::exp;
use crate::pairs::{Form, Stage, scores};
use crate::philox::WeightIndex;
use crate::problem::{Dropout, Sizes};
use crate::tile::{KeyTile, MASKED, QueryTile, masked_scores};
use crate::tiling::Tiling;

/// What the gradients of scores are made of.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Source {
    /// The gradient of the context.
    Context,
    /// They are given.
    Given,
}

/// Of [`Source::Context`].
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Noted {
    /// Of each query, the greatest score and the reciprocal of the sum of exponentials.
    pub(crate) statistics: ComptimeOption<OwnedTensor<f32>>,
    /// Of each query, `D`.
    pub(crate) totals: ComptimeOption<OwnedTensor<f32>>,
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
pub(crate) fn score_gradients<F: Float>(
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
