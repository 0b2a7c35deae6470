//! Backward pass over keys, to the gradients of keys, values and a bias of keys. A cube processes the keys of one tile,
//! for the queries of all heads that attend to them, or for a split of each head's queries.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::additive_gradient::AdditiveTile;
use crate::backward::score_gradients::{GradientOf, ScoreGradients, Upstream};
use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::forward::splits::Splits;
use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::{Operands, ScoreKind};
use crate::tile::rows::{Rows, RowsAt};
use crate::tile::{CubePlace, KeyTile, QueryTile, add_transposed_products, share, write_zeros};

#[cube(launch, address_type = "dynamic")]
fn backward_keys<F: Float>(
    operands: &Operands<F>,
    upstream: &Upstream<F>,
    // `[splits, batch, key_heads, keys, size]`
    to_keys: &mut [f32],
    // `[splits, batch, key_heads, keys, value_size]`
    to_values: &mut [f32],
    // For a bias of keys, `[splits, batch, heads, keys]`.
    to_bias: &mut [f32],
    // The number of query tiles of a split.
    split_tiles: usize,
    #[comptime] sums_bias: bool,
    #[define(F)] _dtype: ElemType,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let place = CubePlace::new(sizes.batch, sizes.key_heads, key_tiles);
    if place.split * split_tiles >= query_tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = place.tile * comptime!(tiling.key_tile());
    let key_tile = KeyTile::new(place.batch, place.head, first_key, sizes, tiling);
    let to_row = key_tile.row_of_split(place.split, sizes);
    let to_key_rows = RowsAt::new(to_row, key_tile.valid, sizes.size);
    let to_value_rows = RowsAt::new(to_row, key_tile.valid, sizes.value_size);

    let mut scores = ScoreGradients::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let group = sizes.heads / sizes.key_heads;
    let end_tile = min(query_tiles, (place.split + 1) * split_tiles);
    // Not a flag, as in the forward pass.
    let mut tiles_done = 0u32.runtime();
    for n in 0..group {
        let head = place.head * group + n;
        let mut of_bias = 0.0f32;
        for tile in place.split * split_tiles..end_tile {
            if scores.is_attended::<F>(operands, place.batch, tile, key_tile) {
                let is_first = tiles_done == 0u32;
                let query_tile = QueryTile::new(place.batch, head, tile, sizes, tiling);
                let is_direct = scores.needs_direct_tanh::<F>(operands, query_tile);
                scores.compute::<F>(operands, upstream, query_tile, key_tile, is_direct);
                match comptime!(upstream.of) {
                    GradientOf::Context => {
                        share(&mut pairs, &scores.weights, tiling);
                        add_transposed_products::<F>(
                            to_values,
                            to_value_rows,
                            &pairs,
                            Rows::<F>::new(&upstream.gradient, query_tile.rows(sizes.value_size)),
                            1.0f32,
                            is_first,
                            tiling,
                        );
                    }
                    GradientOf::Scores => {}
                }
                if comptime!(!sums_bias) {
                    scores.uncap::<F>(operands);
                }
                share(&mut pairs, &scores.gradients, tiling);
                if comptime!(sums_bias) {
                    if unit < key_tile.valid {
                        for row in 0..query_tile.valid {
                            let pair = pairs[row * comptime!(tiling.key_tile()) + unit];
                            of_bias += select(pair == MASKED, 0.0f32, pair);
                        }
                    }
                    // A bias is added after the cap.
                    if comptime!(operands.modifiers.soft_cap.is_some()) {
                        scores.uncap::<F>(operands);
                        share(&mut pairs, &scores.gradients, tiling);
                    }
                }
                match comptime!(operands.kind) {
                    ScoreKind::Dot => add_transposed_products::<F>(
                        to_keys,
                        to_key_rows,
                        &pairs,
                        query_tile.queries::<F>(operands),
                        sizes.scale,
                        is_first,
                        tiling,
                    ),
                    ScoreKind::Additive => {
                        let tile = AdditiveTile::<F>::new(
                            operands, query_tile, key_tile, &pairs, is_direct, is_first,
                        );
                        tile.add_to_keys(to_keys, to_key_rows, &mut scores.stage);
                    }
                }
                tiles_done += 1u32;
            }
        }
        if comptime!(sums_bias) {
            if unit < key_tile.valid {
                let row = (place.split * sizes.batch + place.batch) * sizes.heads + head;
                to_bias[row * sizes.keys + first_key + unit] = of_bias;
            }
        }
    }

    if tiles_done == 0u32 {
        // No query attends to the keys.
        write_zeros(to_keys, to_key_rows, 0usize, tiling);
        match comptime!(upstream.of) {
            GradientOf::Context => write_zeros(to_values, to_value_rows, 0usize, tiling),
            GradientOf::Scores => {}
        }
    }
}

impl Backward {
    /// Adds the gradients of keys, values and bias, in f32, if any is requested.
    pub(crate) fn pass_over_keys(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let has_values = self.of == GradientOf::Context;
        let wants_values = self.wanted.values && has_values;
        let wants_bias = self.wanted.bias && inputs.modifiers.has_key_bias();
        if !(self.wanted.keys || wants_values || wants_bias) {
            return;
        }
        let [batch, heads, queries, size] = inputs.queries.shape().dims();
        let [_, key_heads, keys, value_size] = inputs.values.shape().dims();
        let tiling = inputs.tiling();
        let client = &inputs.queries.client;
        let cubes = batch * key_heads * keys.div_ceil(tiling.key_tile());
        let rows = batch * key_heads * keys;
        let elements = rows * size.max(value_size);
        let splits = Splits::new(cubes, queries.div_ceil(tiling.query_tile()), elements);
        let result = |is_there, elements| {
            inputs.empty(if is_there {
                [splits.count, elements]
            } else {
                [1, 1]
            })
        };
        let to_keys = result(true, rows * size);
        let to_values = result(has_values, rows * value_size);
        let to_bias = result(wants_bias, batch * heads * keys);
        backward_keys::launch(
            client,
            cube_count(client, cubes * splits.count),
            CubeDim::new_1d(tiling.units() as u32),
            inputs.address_type(&[&self.gradient, &to_keys, &to_values, &to_bias]),
            inputs.operands(),
            self.upstream(),
            to_keys.clone().into_buffer_arg(),
            to_values.clone().into_buffer_arg(),
            to_bias.clone().into_buffer_arg(),
            splits.tiles,
            wants_bias,
            element_type(inputs.queries.dtype()),
        );
        let whole = |splits, shape| CubeBackend::float_reshape(sum_of_rows(splits), shape);
        if self.wanted.keys {
            gradients.keys = Some(whole(to_keys, inputs.keys.shape()));
        }
        if wants_values {
            gradients.values = Some(whole(to_values, inputs.values.shape()));
        }
        if let Some(bias) = inputs.modifiers.bias.as_ref().filter(|_| wants_bias) {
            let mut gradient = whole(to_bias, [batch, heads, 1, keys].into());
            for axis in [0, 1] {
                if bias.shape()[axis] == 1 {
                    gradient = CubeBackend::float_sum_dim(gradient, axis);
                }
            }
            gradients.bias = Some(gradient);
        }
    }
}
