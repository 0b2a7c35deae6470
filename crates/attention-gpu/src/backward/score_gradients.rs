//! Gradients of the scores of a tile.
//!
//! With `p` the weight, `f` its dropout factor, `C` the context: `dp = dC . v`, `D = dC . C`, `ds = p (f dp - D)`.
//! Scores and weights are recomputed, from the statistics that the forward pass saved for each query.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::host::dropout::WeightIndex;
use crate::host::mask::MASKED;
use crate::tile::math::exp;
use crate::tile::operands::{Operands, ScoreKind};
use crate::tile::rows::Rows;
use crate::tile::score_tile::{Stage, add_scores, needs_direct_tanh};
use crate::tile::tiling::Tiling;
use crate::tile::{KeyTile, QueryTile, mask_scores, uniform};

/// The result whose gradient a backward pass starts from.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum GradientOf {
    Context,
    Scores,
}

/// The gradient that a backward pass starts from; for [`GradientOf::Context`] with the statistics of each query.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Upstream<F: Float> {
    /// `[batch, heads, queries, value_size]` or `[batch, heads, queries, keys]`, contiguous.
    pub(crate) gradient: Box<[F]>,
    /// The largest score, the reciprocal of the sum of exponentials, and `D`, flash-attention's delta.
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

/// Gradients of the scores, tile by tile; each unit has those of its pairs.
#[derive(CubeType)]
pub(crate) struct ScoreGradients {
    /// Weights after dropout; [`MASKED`] where masked.
    pub(crate) weights: Array<f32>,
    /// Gradients of the scores (of the capped ones, if they are capped); [`MASKED`] where masked.
    pub(crate) gradients: Array<f32>,
    /// The derivatives of the cap.
    slopes: Array<f32>,
    pub(crate) stage: Stage,
    /// A number for all units.
    pub(crate) flag: Shared<[u32]>,
}

#[cube]
impl ScoreGradients {
    pub(crate) fn new(#[comptime] tiling: Tiling) -> ScoreGradients {
        ScoreGradients {
            weights: Array::new(comptime!(tiling.pairs())),
            gradients: Array::new(comptime!(tiling.pairs())),
            slopes: Array::new(comptime!(tiling.pairs())),
            stage: Stage::new(tiling),
            flag: Shared::new_slice(1usize),
        }
    }

    /// Whether a query of `tile` attends to a key of `key_tile`. Has barriers.
    pub(crate) fn is_attended<F: Float>(
        &mut self,
        operands: &Operands<F>,
        batch: usize,
        tile: usize,
        key_tile: KeyTile,
    ) -> bool {
        let (mask, keys) = (&operands.mask, operands.sizes.keys);
        let start = uniform(mask.tile_start(batch, tile), &mut self.flag);
        let end = uniform(mask.tile_end(batch, tile, keys), &mut self.flag);
        start < key_tile.first + key_tile.valid && end > key_tile.first
    }

    /// Whether the scores of a tile of queries evaluate `tanh` of each sum, as the forward pass decided: its statistics
    /// must be of the same scores. Has barriers.
    pub(crate) fn needs_direct_tanh<F: Float>(
        &mut self,
        operands: &Operands<F>,
        query_tile: QueryTile,
    ) -> bool {
        needs_direct_tanh::<F>(
            query_tile.queries::<F>(operands),
            &mut self.flag,
            operands.kind,
            comptime!(operands.tiling),
        )
    }

    /// Turns gradients of capped scores into gradients of the scores.
    pub(crate) fn uncap<F: Float>(&mut self, operands: &Operands<F>) {
        let modifiers = &operands.modifiers;
        let count = comptime!(operands.tiling.pairs());
        modifiers.uncap_gradients(&mut self.gradients, &self.slopes, count);
    }

    /// Computes the weights and the gradients of a tile. Has barriers.
    pub(crate) fn compute<F: Float>(
        &mut self,
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
            self.weights[pair] = 0.0f32;
            self.gradients[pair] = 0.0f32;
        }
        match comptime!(upstream.of) {
            GradientOf::Context => {
                add_scores::<F>(
                    &mut self.weights,
                    &mut self.stage,
                    query_tile.queries::<F>(operands),
                    key_tile.keys::<F>(operands),
                    &operands.weight,
                    is_direct,
                    operands.kind,
                    tiling,
                );
                let no_weight = ComptimeOption::new_None();
                add_scores::<F>(
                    &mut self.gradients,
                    &mut self.stage,
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
        modifiers.cap_scores(
            &mut self.weights,
            &mut self.slopes,
            sizes.scale,
            comptime!(tiling.pairs()),
        );
        mask_scores::<F>(&mut self.weights, query_tile, key_tile, operands);
        #[unroll]
        for row in 0..tiling.rows {
            let tile_row = unit / tiling.key_groups * tiling.rows + row;
            // Beyond the queries everything is masked.
            let tile_row = min(tile_row, query_tile.valid - 1);
            #[unroll]
            for key in 0..tiling.keys {
                let column = key_tile.first + key * tiling.key_groups + unit % tiling.key_groups;
                let pair = comptime!(row * tiling.keys + key);
                if self.weights[pair] <= MASKED {
                    // It may be minus infinity.
                    self.weights[pair] = MASKED;
                    self.gradients[pair] = MASKED;
                } else {
                    match comptime!(upstream.of) {
                        GradientOf::Context => {
                            let row = query_tile.row + tile_row;
                            let weight = exp(self.weights[pair] - upstream.maximum(row))
                                * upstream.reciprocal(row);
                            let at = WeightIndex {
                                batch: query_tile.batch as u32,
                                head: query_tile.head as u32,
                                query: (query_tile.first + tile_row) as u32,
                                key: column as u32,
                            };
                            let factor = operands.dropout.factor(&at);
                            let difference =
                                fma(factor, self.gradients[pair], -upstream.delta(row));
                            self.gradients[pair] = weight * difference;
                            self.weights[pair] = weight * factor;
                        }
                        GradientOf::Scores => {
                            let index = (query_tile.row + tile_row) * sizes.keys + column;
                            self.gradients[pair] = f32::cast_from(upstream.gradient[index]);
                        }
                    }
                }
            }
        }
    }
}
