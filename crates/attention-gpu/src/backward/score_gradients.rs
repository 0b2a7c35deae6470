//! Gradients of the scores of a tile.
//!
//! With `p` the weight, `f` its dropout factor, `C` the context: `dp = dC . v`, `D = dC . C`, `ds = p (f dp - D)`.
//! Scores and weights are computed again, from the statistics that the forward pass saved of each query.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::host::dropout::WeightIndex;
use crate::host::mask::MASKED;
use crate::tile::math::exp;
use crate::tile::operands::{Operands, ScoreKind};
use crate::tile::rows::Rows;
use crate::tile::score_tile::{Stage, add_scores};
use crate::tile::{KeyTile, QueryTile, mask_scores};

/// Result whose gradient a backward pass starts from.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum GradientOf {
    Context,
    Scores,
}

/// Gradient that a backward pass starts from; for [`GradientOf::Context`] with the statistics of each query.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Upstream<F: Float> {
    /// `[batch, heads, queries, value_size]` or `[batch, heads, queries, keys]`, contiguous.
    pub(crate) gradient: Box<[F]>,
    /// The greatest score, the reciprocal of the sum of exponentials, and `D`, flash-attention's delta.
    statistics: ComptimeOption<OwnedTensor<f32>>,
    #[cube(comptime)]
    pub(crate) of: GradientOf,
}

#[cube]
impl<F: Float> Upstream<F> {
    fn maximum(&self, row: usize) -> f32 {
        #[comptime]
        match &self.statistics {
            ComptimeOption::Some(statistics) => statistics[3 * row],
            ComptimeOption::None => 0.0f32.runtime(),
        }
    }

    fn reciprocal(&self, row: usize) -> f32 {
        #[comptime]
        match &self.statistics {
            ComptimeOption::Some(statistics) => statistics[3 * row + 1],
            ComptimeOption::None => 0.0f32.runtime(),
        }
    }

    fn delta(&self, row: usize) -> f32 {
        #[comptime]
        match &self.statistics {
            ComptimeOption::Some(statistics) => statistics[3 * row + 2],
            ComptimeOption::None => 0.0f32.runtime(),
        }
    }
}

/// Computes, for the pairs of this unit, the weights after dropout and the gradients of the scores; [`MASKED`] where
/// masked. If scores are capped, these are the gradients of capped scores, and `slopes` the derivative of the cap.
#[cube]
pub(crate) fn score_gradients<F: Float>(
    weights: &mut Array<f32>,
    gradients: &mut Array<f32>,
    slopes: &mut Array<f32>,
    stage: &mut Stage,
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    query_tile: QueryTile,
    key_tile: KeyTile,
    is_direct: bool,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let unit = UNIT_POS as usize;
    #[unroll]
    for pair in 0..comptime!(tiling.pairs()) {
        weights[pair] = 0.0f32;
        gradients[pair] = 0.0f32;
    }
    match comptime!(upstream.of) {
        GradientOf::Context => {
            add_scores::<F>(
                weights,
                stage,
                query_tile.queries::<F>(operands),
                key_tile.keys::<F>(operands),
                &operands.weight,
                is_direct,
                operands.kind,
                tiling,
            );
            let no_weight = ComptimeOption::new_None();
            add_scores::<F>(
                gradients,
                stage,
                Rows::<F>::new(&upstream.gradient, query_tile.rows(sizes.value_size)),
                key_tile.values::<F>(operands),
                &no_weight,
                false,
                ScoreKind::Dot,
                tiling,
            );
        }
        GradientOf::Scores => {}
    }
    let modifiers = &operands.modifiers;
    modifiers.cap_scores(weights, slopes, sizes.scale, comptime!(tiling.pairs()));
    mask_scores::<F>(weights, query_tile, key_tile, operands);
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
                match comptime!(upstream.of) {
                    GradientOf::Context => {
                        let row = query_tile.row + tile_row;
                        let weight =
                            exp(weights[pair] - upstream.maximum(row)) * upstream.reciprocal(row);
                        let at = WeightIndex {
                            batch: query_tile.batch as u32,
                            head: query_tile.head as u32,
                            query: (query_tile.first + tile_row) as u32,
                            key: column as u32,
                        };
                        let factor = operands.dropout.factor(&at);
                        let difference = fma(factor, gradients[pair], -upstream.delta(row));
                        gradients[pair] = weight * difference;
                        weights[pair] = weight * factor;
                    }
                    GradientOf::Scores => {
                        let index = (query_tile.row + tile_row) * sizes.keys + column;
                        gradients[pair] = f32::cast_from(upstream.gradient[index]);
                    }
                }
            }
        }
    }
}
