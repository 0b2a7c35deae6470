//! Backward to keys, values and bias. A cube has the keys of one tile, and goes through the queries of all heads that
//! read them, or a part of each head's.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::additive_gradient::add_to_additive_keys;
use crate::backward::{Backward, KeyGradients, sum_of_rows};
use crate::gradient::{Noted, Source, score_gradients};
use crate::mask::Mask;
use crate::pairs::{Form, RowsAt, Stage, is_far};
use crate::parts::Parts;
use crate::problem::{Dropout, Sizes};
use crate::tensors::{cube_count, element_type};
use crate::tile::{KeyTile, MASKED, QueryTile, add_transposed_products, shared_index, uniform};
use crate::tiling::Tiling;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
fn backward_keys<F: Float>(
    queries: &[F],
    keys: &[F],
    values: &[F],
    weight: ComptimeOption<OwnedTensor<f32>>,
    bias: ComptimeOption<OwnedTensor<f32>>,
    mask: Mask,
    dropout: Dropout,
    // Of the context, or of the scores.
    gradient: &[F],
    noted: Noted,
    // Of each part of the queries.
    to_keys: &mut [f32],
    to_values: &mut [f32],
    // `[parts, batch, heads, keys]`
    to_bias: &mut [f32],
    sizes: Sizes,
    part_tiles: usize,
    #[comptime] source: Source,
    #[comptime] form: Form,
    #[comptime] has_bias: bool,
    #[comptime] tiling: Tiling,
    #[define(F)] _dtype: ElemType,
) {
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let part = CUBE_POS / (sizes.batch * sizes.key_heads * key_tiles);
    if part * part_tiles >= query_tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = CUBE_POS % key_tiles * comptime!(tiling.key_tile());
    let key_head = CUBE_POS / key_tiles % sizes.key_heads;
    let batch = CUBE_POS / key_tiles / sizes.key_heads % sizes.batch;
    let key_tile = KeyTile::new(batch, key_head, first_key, sizes, tiling);
    let to_row = part * sizes.batch * sizes.key_heads * sizes.keys + key_tile.row;
    let to_key_rows = RowsAt {
        first: to_row * sizes.size,
        valid: key_tile.valid,
    };
    let to_value_rows = RowsAt {
        first: to_row * sizes.value_size,
        valid: key_tile.valid,
    };

    let mut stage = Stage::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    let group = sizes.heads / sizes.key_heads;
    let end_tile = min(query_tiles, (part + 1) * part_tiles);
    // As in the forward pass, no flag.
    let mut tiles_done = 0u32.runtime();
    for n in 0..group {
        let head = key_head * group + n;
        let mut of_bias = 0.0f32;
        for tile in part * part_tiles..end_tile {
            let start = uniform(mask.tile_start(batch, tile), &mut flag);
            let end = uniform(mask.tile_end(batch, tile, sizes.keys), &mut flag);
            if start < first_key + key_tile.valid && end > first_key {
                let is_first = tiles_done == 0u32;
                let query_tile = QueryTile::new(batch, head, tile, sizes, tiling);
                let query_rows = query_tile.rows(sizes.size);
                // As the forward pass chose: its statistics are of the same scores.
                let is_direct =
                    is_far::<F>(queries, query_rows, sizes.size, &mut flag, form, tiling);
                score_gradients::<F>(
                    &mut weights,
                    &mut gradients,
                    &mut stage,
                    queries,
                    query_tile,
                    keys,
                    key_tile,
                    values,
                    &weight,
                    &bias,
                    gradient,
                    &mask,
                    &dropout,
                    &noted,
                    sizes,
                    is_direct,
                    source,
                    form,
                    tiling,
                );
                match comptime!(source) {
                    Source::Context => {
                        sync_cube();
                        #[unroll]
                        for pair in 0..comptime!(tiling.pairs()) {
                            pairs[shared_index(pair, tiling)] = weights[pair];
                        }
                        sync_cube();
                        add_transposed_products::<F>(
                            to_values,
                            to_value_rows,
                            &pairs,
                            gradient,
                            query_tile.rows(sizes.value_size),
                            sizes.value_size,
                            1.0f32,
                            is_first,
                            tiling,
                        );
                    }
                    Source::Given => {}
                }
                sync_cube();
                #[unroll]
                for pair in 0..comptime!(tiling.pairs()) {
                    pairs[shared_index(pair, tiling)] = gradients[pair];
                }
                sync_cube();
                match comptime!(form) {
                    Form::Dot => add_transposed_products::<F>(
                        to_keys,
                        to_key_rows,
                        &pairs,
                        queries,
                        query_rows,
                        sizes.size,
                        sizes.scale,
                        is_first,
                        tiling,
                    ),
                    Form::Additive => add_to_additive_keys::<F>(
                        to_keys,
                        to_key_rows,
                        &mut stage,
                        &pairs,
                        queries,
                        query_rows,
                        keys,
                        key_tile.rows(sizes.size),
                        &weight,
                        sizes.size,
                        is_direct,
                        is_first,
                        tiling,
                    ),
                }
                if comptime!(has_bias) {
                    if unit < key_tile.valid {
                        for row in 0..query_tile.valid {
                            let pair = pairs[row * comptime!(tiling.key_tile()) + unit];
                            of_bias += select(pair == MASKED, 0.0f32, pair);
                        }
                    }
                }
                tiles_done += 1u32;
            }
        }
        if comptime!(has_bias) {
            if unit < key_tile.valid {
                let row = (part * sizes.batch + batch) * sizes.heads + head;
                to_bias[row * sizes.keys + first_key + unit] = of_bias;
            }
        }
    }

    if tiles_done == 0u32 {
        // No query.
        let mut index = unit;
        while index < key_tile.valid * sizes.size {
            to_keys[to_key_rows.first + index] = 0.0f32;
            index += comptime!(tiling.units());
        }
        match comptime!(source) {
            Source::Context => {
                let mut index = unit;
                while index < key_tile.valid * sizes.value_size {
                    to_values[to_value_rows.first + index] = 0.0f32;
                    index += comptime!(tiling.units());
                }
            }
            Source::Given => {}
        }
    }
}

impl Backward<'_> {
    /// The gradients of keys, values and bias, in f32.
    pub(crate) fn to_keys(&self) -> KeyGradients {
        let problem = self.problem;
        let [batch, heads, queries, size] = problem.queries.shape().dims();
        let [_, key_heads, keys, value_size] = problem.values.shape().dims();
        let tiling = problem.tiling();
        let client = &problem.queries.client;
        let cubes = batch * key_heads * keys.div_ceil(tiling.key_tile());
        let rows = batch * key_heads * keys;
        let elements = rows * size.max(value_size);
        let parts = Parts::new(cubes, queries.div_ceil(tiling.query_tile()), elements);
        let to_keys = problem.empty([parts.count, rows * size]);
        let to_values = match self.source {
            Source::Context => problem.empty([parts.count, rows * value_size]),
            Source::Given => problem.empty([1, 1]),
        };
        let has_bias = problem.bias.is_some();
        let to_bias = match has_bias {
            true => problem.empty([parts.count, batch * heads * keys]),
            false => problem.empty([1, 1]),
        };
        backward_keys::launch(
            client,
            cube_count(client, cubes * parts.count),
            CubeDim::new_1d(tiling.units() as u32),
            problem.address_type(&[self.gradient, &to_keys, &to_values, &to_bias]),
            problem.queries.clone().into_buffer_arg(),
            problem.keys.clone().into_buffer_arg(),
            problem.values.clone().into_buffer_arg(),
            problem.weight_arg(),
            problem.bias_arg(),
            problem.mask_arg(),
            problem.dropout_arg(),
            self.gradient.clone().into_buffer_arg(),
            self.noted(),
            to_keys.clone().into_buffer_arg(),
            to_values.clone().into_buffer_arg(),
            to_bias.clone().into_buffer_arg(),
            problem.sizes(),
            parts.tiles,
            self.source,
            problem.form,
            has_bias,
            tiling,
            element_type(problem.queries.dtype()),
        );
        let whole = |parts, shape| CubeBackend::float_reshape(sum_of_rows(parts), shape);
        KeyGradients {
            keys: whole(to_keys, problem.keys.shape()),
            values: (self.source == Source::Context)
                .then(|| whole(to_values, problem.values.shape())),
            bias: has_bias.then(|| whole(to_bias, [batch, heads, 1, keys].into())),
        }
    }
}
