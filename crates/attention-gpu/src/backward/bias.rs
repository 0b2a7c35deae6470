//! Backward pass over the biases of pairs, to their gradient. A cube has the pairs of one tile, and goes through the
//! examples and heads that share their biases, or a split of them.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::score_gradients::{Upstream, score_gradients};
use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::forward::splits::Splits;
use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::{Operands, Sizes};
use crate::tile::score_tile::{Stage, needs_direct_tanh};
use crate::tile::{KeyTile, QueryTile, uniform};

/// Examples and heads of a bias; each is for one or for all of the scores.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct BiasGroups {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
}

#[cube]
impl BiasGroups {
    /// Pairs of example and head that share an element.
    pub(crate) fn members(&self, sizes: Sizes) -> usize {
        sizes.batch / self.batch * (sizes.heads / self.heads)
    }

    /// The example of a member.
    pub(crate) fn batch_of(&self, batch: usize, member: usize, sizes: Sizes) -> usize {
        batch + member / (sizes.heads / self.heads)
    }

    /// The head of a member.
    pub(crate) fn head_of(&self, head: usize, member: usize, sizes: Sizes) -> usize {
        head + member % (sizes.heads / self.heads)
    }
}

#[cube(launch, address_type = "dynamic")]
fn backward_bias<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch or 1, heads or 1, queries, keys]`
    to_bias: &mut [f32],
    groups: BiasGroups,
    // Members of a split.
    split_members: usize,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    let members = groups.members(sizes);
    let split = CUBE_POS / (groups.batch * groups.heads * query_tiles * key_tiles);
    if split * split_members >= members {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = CUBE_POS % key_tiles * comptime!(tiling.key_tile());
    let tile = CUBE_POS / key_tiles % query_tiles;
    let of_head = CUBE_POS / key_tiles / query_tiles % groups.heads;
    let of_batch = CUBE_POS / key_tiles / query_tiles / groups.heads % groups.batch;

    let mut stage = Stage::new(tiling);
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut slopes = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut sums = Array::<f32>::new(comptime!(tiling.pairs()));
    #[unroll]
    for pair in 0..comptime!(tiling.pairs()) {
        sums[pair] = 0.0f32;
    }
    for member in split * split_members..min(members, (split + 1) * split_members) {
        let batch = groups.batch_of(of_batch, member, sizes);
        let head = groups.head_of(of_head, member, sizes);
        let query_tile = QueryTile::new(batch, head, tile, sizes, tiling);
        let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
        let start = uniform(operands.mask.tile_start(batch, tile), &mut flag);
        let end = uniform(operands.mask.tile_end(batch, tile, sizes.keys), &mut flag);
        if start < first_key + key_tile.valid && end > first_key {
            let query_rows = query_tile.queries::<F>(operands);
            let is_direct = needs_direct_tanh::<F>(query_rows, &mut flag, operands.kind, tiling);
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
            #[unroll]
            for pair in 0..comptime!(tiling.pairs()) {
                let gradient = gradients[pair];
                sums[pair] += select(gradient == MASKED, 0.0f32, gradient);
            }
        }
    }

    let rows = ((split * groups.batch + of_batch) * groups.heads + of_head) * sizes.queries;
    #[unroll]
    for row in 0..tiling.rows {
        let group = unit / tiling.key_groups * tiling.rows;
        let query = tile * comptime!(tiling.query_tile()) + group + row;
        #[unroll]
        for key in 0..tiling.keys {
            let column = first_key + key * tiling.key_groups + unit % tiling.key_groups;
            if query < sizes.queries && column < sizes.keys {
                let pair = comptime!(row * tiling.keys + key);
                to_bias[(rows + query) * sizes.keys + column] = sums[pair];
            }
        }
    }
}

impl Backward {
    /// Adds the gradient of a bias of pairs, in f32, if it is wanted. The pass over keys makes the gradient of a bias
    /// of keys.
    pub(crate) fn pass_over_bias(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let Some(bias) = &inputs.modifiers.bias else {
            return;
        };
        if !self.wanted.bias || inputs.modifiers.has_key_bias() {
            return;
        }
        let [batch, heads, queries, keys] = bias.shape().dims();
        let [of_batch, of_heads, _, _] = inputs.queries.shape().dims();
        let tiling = inputs.tiling();
        let client = &inputs.queries.client;
        let tiles = queries.div_ceil(tiling.query_tile()) * keys.div_ceil(tiling.key_tile());
        let cubes = batch * heads * tiles;
        let members = of_batch / batch * (of_heads / heads);
        let elements = batch * heads * queries * keys;
        let splits = Splits::new(cubes, members, elements);
        let to_bias = inputs.empty([splits.count, elements]);
        backward_bias::launch(
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
        gradients.bias = Some(CubeBackend::float_reshape(sum, bias.shape()));
    }
}
