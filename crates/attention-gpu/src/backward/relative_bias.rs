//! Backward pass over the biases of distances, to their gradient. A cube has neighbouring distances whose pairs with a
//! tile of queries all lie in one tile of keys. It goes through the queries of all examples and heads that share them,
//! or a split of these.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::bias::{BiasGroups, BiasGroupsLaunch};
use crate::backward::score_gradients::{Upstream, score_gradients};
use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::forward::splits::Splits;
use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::Operands;
use crate::tile::score_tile::{Stage, needs_direct_tanh};
use crate::tile::tiling::{Tiling, unrolled};
use crate::tile::{KeyTile, QueryTile, shared_index, uniform};

#[cube(launch, address_type = "dynamic")]
fn backward_relative_bias<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch or 1, heads or 1, queries + keys - 1]`
    to_bias: &mut [f32],
    groups: BiasGroups,
    // Tiles of queries of a split.
    split_tiles: usize,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let distances = sizes.queries + sizes.keys - 1;
    let blocks = distances.div_ceil(comptime!(tiling.distances()));
    // Tiles of all members.
    let tiles = groups.members(sizes) * query_tiles;
    let split = CUBE_POS / (groups.batch * groups.heads * blocks);
    if split * split_tiles >= tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_distance = CUBE_POS % blocks * comptime!(tiling.distances());
    let of_head = CUBE_POS / blocks % groups.heads;
    let of_batch = CUBE_POS / blocks / groups.heads % groups.batch;

    let mut stage = Stage::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut slopes = Array::<f32>::new(comptime!(tiling.pairs()));
    // Each unit sums one distance.
    let mut sum = 0.0f32;
    for n in split * split_tiles..min(tiles, (split + 1) * split_tiles) {
        let member = n / query_tiles;
        let tile = n % query_tiles;
        let batch = groups.batch_of(of_batch, member, sizes);
        let head = groups.head_of(of_head, member, sizes);
        let query_tile = QueryTile::new(batch, head, tile, sizes, tiling);
        // The key at the first distance from the first query is `after - before`. Below 0, that many columns before the
        // first key are missing.
        let after = first_distance + query_tile.first;
        let before = sizes.queries - 1;
        let first_key = max(after, before) - before;
        let missing = max(after, before) - after;
        if first_key < sizes.keys && missing < comptime!(tiling.key_tile()) {
            let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
            let start = uniform(operands.mask.tile_start(batch, tile), &mut flag);
            let end = uniform(operands.mask.tile_end(batch, tile, sizes.keys), &mut flag);
            if start < first_key + key_tile.valid && end > first_key {
                let query_rows = query_tile.queries::<F>(operands);
                let is_direct =
                    needs_direct_tanh::<F>(query_rows, &mut flag, operands.kind, tiling);
                score_gradients::<F>(
                    &mut weights,
                    &mut gradients,
                    &mut slopes,
                    &mut stage,
                    operands,
                    upstream,
                    query_tile,
                    key_tile,
                    is_direct,
                );
                sync_cube();
                #[unroll]
                for pair in 0..comptime!(tiling.pairs()) {
                    pairs[shared_index(pair, tiling)] = gradients[pair];
                }
                sync_cube();
                if unit < comptime!(tiling.distances()) {
                    sum += sum_of_diagonal(&pairs, unit, missing, tiling);
                }
            }
        }
    }

    let distance = first_distance + unit;
    if unit < comptime!(tiling.distances()) && distance < distances {
        let row = (split * groups.batch + of_batch) * groups.heads + of_head;
        to_bias[row * distances + distance] = sum;
    }
}

/// The sum along the diagonal that begins at a column of the first query, without the `missing` columns before the
/// tile's.
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
                // Beyond the queries and the keys all is masked.
                let pair = pairs[row * comptime!(tiling.key_tile()) + column - missing];
                sum += select(pair == MASKED, 0.0f32, pair);
            }
        }
    }
    sum
}

impl Backward {
    /// Adds the gradient of a bias of distances, in f32, if it is wanted.
    pub(crate) fn pass_over_relative_bias(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let Some(bias) = &inputs.modifiers.relative_bias else {
            return;
        };
        if !self.wanted.relative_bias {
            return;
        }
        let [batch, heads, _, distances] = bias.shape().dims();
        let [of_batch, of_heads, queries, _] = inputs.queries.shape().dims();
        let tiling = inputs.tiling();
        let client = &inputs.queries.client;
        let cubes = batch * heads * distances.div_ceil(tiling.distances());
        let members = of_batch / batch * (of_heads / heads);
        let elements = batch * heads * distances;
        let tiles = members * queries.div_ceil(tiling.query_tile());
        let splits = Splits::new(cubes, tiles, elements);
        let to_bias = inputs.empty([splits.count, elements]);
        backward_relative_bias::launch(
            client,
            cube_count(client, cubes * splits.count),
            CubeDim::new_1d(tiling.units() as u32),
            inputs.address_type(&[&self.gradient, &to_bias]),
            inputs.operands(),
            self.upstream(),
            to_bias.clone().into_buffer_arg(),
            BiasGroupsLaunch::new(batch, heads),
            splits.tiles,
            element_type(inputs.queries.dtype()),
        );
        let sum = sum_of_rows(to_bias);
        gradients.relative_bias = Some(CubeBackend::float_reshape(sum, bias.shape()));
    }
}
