//! Backward pass over queries, for the gradients of queries and of an additive score's weight. A cube has the queries
//! of one tile, and goes through their keys or a split of them.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::additive_gradient::AdditiveTile;
use crate::backward::score_gradients::{Upstream, score_gradients};
use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::forward::splits::Splits;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::{Operands, ScoreKind};
use crate::tile::rows::RowsAt;
use crate::tile::score_tile::{Stage, needs_direct_tanh};
use crate::tile::{KeyRange, KeyTile, QueryTile, add_products, shared_index};

#[cube(launch, address_type = "dynamic")]
fn backward_queries<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch, heads, queries, size]`
    to_queries: &mut [f32],
    // For additive scores, a row for each group of queries of each tile and split.
    to_weight: &mut [f32],
    // Keys of a split, whole tiles.
    split_keys: usize,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let split = CUBE_POS / (sizes.batch * sizes.heads * tiles);
    if split * split_keys >= sizes.keys {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let tile = CUBE_POS % tiles;
    let head = CUBE_POS / tiles % sizes.heads;
    let batch = CUBE_POS / tiles / sizes.heads % sizes.batch;
    let query_tile = QueryTile::new(batch, head, tile, sizes, tiling);
    let query_rows = query_tile.queries::<F>(operands);
    let to_row = split * sizes.batch * sizes.heads * sizes.queries + query_tile.row;
    let to_rows = RowsAt {
        first: to_row * sizes.size,
        valid: query_tile.valid,
        size: sizes.size,
    };
    let weight_row = CUBE_POS * comptime!(tiling.gradient_groups());

    let mut stage = Stage::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut ones = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    if unit < comptime!(tiling.query_tile()) {
        ones[unit] = 1.0f32;
    }
    let is_direct = needs_direct_tanh::<F>(query_rows, &mut flag, operands.kind, tiling);

    let range = KeyRange::new::<F>(operands, batch, tile, split, split_keys, &mut flag);
    let mut first_key = range.start;
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut slopes = Array::<f32>::new(comptime!(tiling.pairs()));
    while first_key < range.end {
        // As in the forward pass, no flag.
        let is_first = first_key == range.start;
        let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
        let key_rows = key_tile.keys::<F>(operands);
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
        let modifiers = &operands.modifiers;
        modifiers.uncap_gradients(&mut gradients, &slopes, comptime!(tiling.pairs()));
        sync_cube();
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            pairs[shared_index(pair, tiling)] = gradients[pair];
        }
        sync_cube();
        match comptime!(operands.kind) {
            ScoreKind::Dot => add_products::<F>(
                to_queries,
                to_rows,
                &pairs,
                key_rows,
                sizes.scale,
                &ones,
                is_first,
                tiling,
            ),
            ScoreKind::Additive => {
                let tile = AdditiveTile::<F>::new(
                    operands, query_tile, key_tile, &pairs, is_direct, is_first,
                );
                tile.add_to_queries(to_queries, to_rows, to_weight, weight_row, &mut stage);
            }
        }
        first_key += comptime!(tiling.key_tile());
    }

    if first_key == range.start {
        // No key.
        let mut index = unit;
        while index < query_tile.valid * sizes.size {
            to_queries[to_rows.first + index] = 0.0f32;
            index += comptime!(tiling.units());
        }
    }
    match comptime!(operands.kind) {
        ScoreKind::Dot => {}
        ScoreKind::Additive => {
            // Groups without a query.
            let groups = if first_key == range.start {
                0usize.runtime()
            } else {
                query_tile.valid.div_ceil(comptime!(tiling.gradient_rows()))
            };
            let mut index = groups * sizes.size + unit;
            while index < comptime!(tiling.gradient_groups()) * sizes.size {
                to_weight[weight_row * sizes.size + index] = 0.0f32;
                index += comptime!(tiling.units());
            }
        }
    }
}

#[cfg(feature = "autotune")]
impl crate::host::inputs::AttentionInputs {
    /// Whether the sums for the gradient of an additive score's weight fit into a buffer in a tiling: there is one per
    /// query tile, and smaller tiles make more of them.
    pub(crate) fn weight_sums_fit(&self, tiling: crate::tile::tiling::Tiling) -> bool {
        if self.kind() != ScoreKind::Additive {
            return true;
        }
        let [batch, heads, queries, size] = self.queries.shape().dims();
        let [_, _, keys, _] = self.keys.shape().dims();
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        let elements = batch * heads * queries * size;
        let splits = Splits::new(cubes, keys.div_ceil(tiling.key_tile()), elements);
        let element = burn_backend::DType::F32.size();
        let factors = [splits.count, tiling.gradient_groups(), size, element];
        let bytes = factors.into_iter().fold(cubes, usize::saturating_mul);
        bytes <= crate::host::device::largest_buffer_of(&self.queries.client)
    }
}

impl Backward {
    /// Adds the gradients of the queries and of the weight of additive scores, in f32, if one of them is wanted.
    pub(crate) fn pass_over_queries(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let is_additive = inputs.kind() == ScoreKind::Additive;
        let wants_weight = self.wanted.weight && is_additive;
        if !(self.wanted.queries || wants_weight) {
            return;
        }
        let [batch, heads, queries, size] = inputs.queries.shape().dims();
        let [_, _, keys, _] = inputs.keys.shape().dims();
        let tiling = inputs.tiling();
        let client = &inputs.queries.client;
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        let elements = batch * heads * queries * size;
        let splits = Splits::new(cubes, keys.div_ceil(tiling.key_tile()), elements);
        let cubes = cubes * splits.count;
        let to_queries = inputs.empty([splits.count, elements]);
        let to_weight = if is_additive {
            inputs.empty([cubes * tiling.gradient_groups(), size])
        } else {
            inputs.empty([1, 1])
        };
        backward_queries::launch(
            client,
            cube_count(client, cubes),
            CubeDim::new_1d(tiling.units() as u32),
            inputs.address_type(&[&self.gradient, &to_queries, &to_weight]),
            inputs.operands(),
            self.upstream(),
            to_queries.clone().into_buffer_arg(),
            to_weight.clone().into_buffer_arg(),
            splits.tiles * tiling.key_tile(),
            element_type(inputs.queries.dtype()),
        );
        if self.wanted.queries {
            let sum = sum_of_rows(to_queries);
            gradients.queries = Some(CubeBackend::float_reshape(sum, inputs.queries.shape()));
        }
        if wants_weight {
            gradients.weight = Some(sum_of_rows(to_weight));
        }
    }
}
