//! Backward pass over the biases of pairs, to their gradient. A cube processes the pairs of one tile, for all examples
//! and heads that share their biases, or for a split of them.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::client::Client;
use cubecl::prelude::*;

use crate::backward::score_gradients::{ScoreGradients, Upstream, UpstreamLaunch};
use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::forward::splits::Splits;
use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::{Operands, OperandsLaunch, Sizes};
use crate::tile::tiling::Tiling;
use crate::tile::{CubePlace, KeyTile, QueryTile};

/// The examples and heads of a bias, each of which serves one or all examples or heads of the scores.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct BiasGroups {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
}

#[cube]
impl BiasGroups {
    /// The number of pairs of example and head that share an element.
    pub(crate) fn members(&self, sizes: Sizes) -> usize {
        sizes.batch / self.batch * (sizes.heads / self.heads)
    }

    /// A tile of queries of a member.
    pub(crate) fn query_tile(
        &self,
        place: CubePlace,
        member: usize,
        tile: usize,
        sizes: Sizes,
        #[comptime] tiling: Tiling,
    ) -> QueryTile {
        let heads = sizes.heads / self.heads;
        let batch = place.batch + member / heads;
        QueryTile::new(batch, place.head + member % heads, tile, sizes, tiling)
    }

    /// The index of a bias's example and head in a result that repeats them for each split.
    pub(crate) fn row_of_split(&self, place: CubePlace) -> usize {
        (place.split * self.batch + place.batch) * self.heads + place.head
    }
}

#[cube(launch, address_type = "dynamic")]
fn backward_bias<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch or 1, heads or 1, queries, keys]`
    to_bias: &mut [f32],
    groups: BiasGroups,
    // The number of members of a split.
    split_members: usize,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    let members = groups.members(sizes);
    let place = CubePlace::new(groups.batch, groups.heads, query_tiles * key_tiles);
    if place.split * split_members >= members {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = place.tile % key_tiles * comptime!(tiling.key_tile());
    let tile = place.tile / key_tiles;

    let mut scores = ScoreGradients::new(tiling);
    let mut sums = Array::<f32>::new(comptime!(tiling.pairs()));
    #[unroll]
    for pair in 0..comptime!(tiling.pairs()) {
        sums[pair] = 0.0f32;
    }
    for member in place.split * split_members..min(members, (place.split + 1) * split_members) {
        let query_tile = groups.query_tile(place, member, tile, sizes, tiling);
        let batch = query_tile.batch;
        let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
        if scores.is_attended::<F>(operands, batch, tile, key_tile) {
            let is_direct = scores.needs_direct_tanh::<F>(operands, query_tile);
            scores.compute::<F>(operands, upstream, query_tile, key_tile, is_direct);
            #[unroll]
            for pair in 0..comptime!(tiling.pairs()) {
                let gradient = scores.gradients[pair];
                sums[pair] += select(gradient == MASKED, 0.0f32, gradient);
            }
        }
    }

    let rows = groups.row_of_split(place) * sizes.queries;
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

/// How a kernel that sums the gradients of a bias is launched.
type BiasKernel<F> = fn(
    &Client,
    CubeCount,
    CubeDim,
    AddressType,
    OperandsLaunch<F>,
    UpstreamLaunch<F>,
    BufferArg,
    BiasGroupsLaunch,
    usize,
    ElemType,
);

impl Backward {
    /// Adds the gradient of a bias of pairs, in f32, if requested. The pass over keys computes the gradient of a bias
    /// of keys.
    pub(crate) fn pass_over_bias(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let Some(bias) = &inputs.modifiers.bias else {
            return;
        };
        if !self.wanted.bias || inputs.modifiers.has_key_bias() {
            return;
        }
        let [_, _, queries, keys] = bias.shape().dims();
        let tiling = inputs.tiling();
        let tiles = queries.div_ceil(tiling.query_tile()) * keys.div_ceil(tiling.key_tile());
        gradients.bias = Some(self.gradient_of_bias(bias, tiles, 1, backward_bias::launch));
    }

    /// The gradient of a bias, in f32, by a kernel with `tiles` cubes for each example and head of the bias. A cube
    /// processes `steps` steps of each member, or a split of all these steps.
    pub(crate) fn gradient_of_bias<F: Float>(
        &self,
        bias: &CubeTensor,
        tiles: usize,
        steps: usize,
        launch: BiasKernel<F>,
    ) -> CubeTensor {
        let inputs = &self.inputs;
        let [batch, heads, _, _] = bias.shape().dims();
        let [of_batch, of_heads, _, _] = inputs.queries.shape().dims();
        let client = &inputs.queries.client;
        let cubes = batch * heads * tiles;
        let steps = of_batch / batch * (of_heads / heads) * steps;
        let elements = bias.shape().num_elements();
        let splits = Splits::new(cubes, steps, elements);
        let to_bias = inputs.empty([splits.count, elements]);
        launch(
            client,
            cube_count(client, cubes * splits.count),
            CubeDim::new_1d(inputs.tiling().units() as u32),
            inputs.address_type(&[&self.gradient, &to_bias]),
            inputs.operands(),
            self.upstream(),
            to_bias.clone().into_buffer_arg(),
            BiasGroupsLaunch::new(batch, heads),
            splits.tiles,
            element_type(inputs.queries.dtype()),
        );
        CubeBackend::float_reshape(sum_of_rows(to_bias), bias.shape())
    }
}
