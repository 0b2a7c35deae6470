//! Backward pass over queries, for the gradients of queries and of an additive score's weight. A cube processes the
//! queries of one tile, for all their keys or a split of them.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::additive_gradient::AdditiveTile;
use crate::backward::score_gradients::{ScoreGradients, Upstream};
use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::forward::splits::Splits;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::{Operands, ScoreKind};
use crate::tile::rows::RowsAt;
use crate::tile::{CubePlace, KeyRange, KeyTile, QueryTile, add_products, share, write_zeros};

#[cube(launch, address_type = "dynamic")]
fn backward_queries<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch, heads, queries, size]`
    to_queries: &mut [f32],
    // For additive scores, a row for each group of queries of each tile and split.
    to_weight: &mut [f32],
    // The number of keys of a split, whole tiles.
    split_keys: usize,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let place = CubePlace::new(sizes.batch, sizes.heads, tiles);
    if place.split * split_keys >= sizes.keys {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let query_tile = QueryTile::new(place.batch, place.head, place.tile, sizes, tiling);
    let to_row = query_tile.row_of_split(place.split, sizes);
    let to_rows = RowsAt::new(to_row, query_tile.valid, sizes.size);
    let groups = comptime!(tiling.gradient_groups());
    let weight_rows = RowsAt::new(CUBE_POS * groups, groups, sizes.size);

    let mut scores = ScoreGradients::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut ones = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    if unit < comptime!(tiling.query_tile()) {
        ones[unit] = 1.0f32;
    }
    let is_direct = scores.needs_direct_tanh::<F>(operands, query_tile);
    let range = KeyRange::new::<F>(operands, place, split_keys, &mut scores.flag);
    let mut first_key = range.start;
    while first_key < range.end {
        // Not a flag, as in the forward pass.
        let is_first = first_key == range.start;
        let key_tile = KeyTile::new(place.batch, query_tile.key_head, first_key, sizes, tiling);
        scores.compute::<F>(operands, upstream, query_tile, key_tile, is_direct);
        scores.uncap::<F>(operands);
        share(&mut pairs, &scores.gradients, tiling);
        match comptime!(operands.kind) {
            ScoreKind::Dot => add_products::<F>(
                to_queries,
                to_rows,
                &pairs,
                key_tile.keys::<F>(operands),
                sizes.scale,
                &ones,
                is_first,
                tiling,
            ),
            ScoreKind::Additive => {
                let tile = AdditiveTile::<F>::new(
                    operands, query_tile, key_tile, &pairs, is_direct, is_first,
                );
                tile.add_to_queries(
                    to_queries,
                    to_rows,
                    to_weight,
                    weight_rows,
                    &mut scores.stage,
                );
            }
        }
        first_key += comptime!(tiling.key_tile());
    }

    if first_key == range.start {
        // The queries attend to no key.
        write_zeros(to_queries, to_rows, 0usize, tiling);
    }
    match comptime!(operands.kind) {
        ScoreKind::Dot => {}
        ScoreKind::Additive => {
            // Groups without queries.
            let groups = if first_key == range.start {
                0usize.runtime()
            } else {
                query_tile.valid.div_ceil(comptime!(tiling.gradient_rows()))
            };
            write_zeros(to_weight, weight_rows, groups * sizes.size, tiling);
        }
    }
}

#[cfg(feature = "autotune")]
impl crate::host::inputs::AttentionInputs {
    /// Whether the sums for the gradient of an additive score's weight fit into a buffer in this tiling: there is one
    /// per query tile, and smaller tiles make more of them.
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
    /// Adds the gradients of the queries and of the weight of additive scores, in f32, if either is requested.
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
