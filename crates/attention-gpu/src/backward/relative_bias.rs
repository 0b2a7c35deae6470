//! Backward pass over the biases of distances, to their gradient. A cube processes neighbouring distances whose pairs
//! with a tile of queries all lie in one tile of keys. It iterates over the queries of all examples and heads that
//! share them, or over a split of these.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::backward::bias::BiasGroups;
use crate::backward::score_gradients::{ScoreGradients, Upstream};
use crate::backward::{AttentionGradients, Backward};
use crate::host::mask::MASKED;
use crate::tile::operands::Operands;
use crate::tile::tiling::{Tiling, unrolled};
use crate::tile::{CubePlace, KeyTile, share};

#[cube(launch, address_type = "dynamic")]
fn backward_relative_bias<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch or 1, heads or 1, queries + keys - 1]`
    to_bias: &mut [f32],
    groups: BiasGroups,
    // The number of query tiles of a split.
    split_tiles: usize,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let distances = sizes.queries + sizes.keys - 1;
    let blocks = distances.div_ceil(comptime!(tiling.distances()));
    // The number of tiles of all members.
    let tiles = groups.members(sizes) * query_tiles;
    let place = CubePlace::new(groups.batch, groups.heads, blocks);
    if place.split * split_tiles >= tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_distance = place.tile * comptime!(tiling.distances());

    let mut scores = ScoreGradients::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    // Each unit sums one distance.
    let mut sum = 0.0f32;
    for n in place.split * split_tiles..min(tiles, (place.split + 1) * split_tiles) {
        let tile = n % query_tiles;
        let query_tile = groups.query_tile(place, n / query_tiles, tile, sizes, tiling);
        let batch = query_tile.batch;
        // The key at the first distance from the first query is `after - before`. If it is negative, that many columns
        // before the first key are missing.
        let after = first_distance + query_tile.first;
        let before = sizes.queries - 1;
        let first_key = max(after, before) - before;
        let missing = max(after, before) - after;
        if first_key < sizes.keys && missing < comptime!(tiling.key_tile()) {
            let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
            if scores.is_attended::<F>(operands, batch, tile, key_tile) {
                let is_direct = scores.needs_direct_tanh::<F>(operands, query_tile);
                scores.compute::<F>(operands, upstream, query_tile, key_tile, is_direct);
                share(&mut pairs, &scores.gradients, tiling);
                if unit < comptime!(tiling.distances()) {
                    sum += sum_of_diagonal(&pairs, unit, missing, tiling);
                }
            }
        }
    }

    let distance = first_distance + unit;
    if unit < comptime!(tiling.distances()) && distance < distances {
        to_bias[groups.row_of_split(place) * distances + distance] = sum;
    }
}

/// The sum along the diagonal that begins at a column of the first query, without the `missing` columns before the
/// tile.
#[cube]
fn sum_of_diagonal(
    pairs: &Shared<[f32]>,
    first: usize,
    missing: usize,
    #[comptime] tiling: Tiling,
) -> f32 {
    let at_once = comptime!(unrolled(tiling.query_tile()));
    let mut sum = 0.0f32;
    for block in 0..comptime!(tiling.query_tile() / at_once) {
        #[unroll]
        for row in 0..at_once {
            let row = block * at_once + row;
            let column = first + row;
            if column >= missing {
                // Beyond the queries and the keys everything is masked.
                let pair = pairs[row * comptime!(tiling.key_tile()) + column - missing];
                sum += select(pair == MASKED, 0.0f32, pair);
            }
        }
    }
    sum
}

impl Backward {
    /// Adds the gradient of a bias of distances, in f32, if requested.
    pub(crate) fn pass_over_relative_bias(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let Some(bias) = &inputs.modifiers.relative_bias else {
            return;
        };
        if !self.wanted.relative_bias {
            return;
        }
        let tiling = inputs.tiling();
        let [_, _, _, distances] = bias.shape().dims();
        let [_, _, queries, _] = inputs.queries.shape().dims();
        let cubes = distances.div_ceil(tiling.distances());
        let tiles = queries.div_ceil(tiling.query_tile());
        let launch = backward_relative_bias::launch;
        gradients.relative_bias = Some(self.gradient_of_bias(bias, cubes, tiles, launch));
    }
}
