//! Backward to keys, values and bias. A cube has the keys of one tile, and goes through the queries of all heads that
//! read them.

use burn::backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::backward::Backward;
use super::gradient::{Noted, Source, add_to_additive_keys, score_gradients};
use super::launch::{cube_count, element_type};
use super::mask::Mask;
use super::pairs::{Form, RowsAt, Stage, is_far};
use super::problem::{Dropout, Sizes};
use super::tile::{MASKED, TileAt, add_transposed_products, shared_index, uniform};
use super::tiling::Tiling;

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
    to_keys: &mut [f32],
    to_values: &mut [f32],
    // `[batch, heads, keys]`
    to_bias: &mut [f32],
    sizes: Sizes,
    #[comptime] source: Source,
    #[comptime] form: Form,
    #[comptime] has_bias: bool,
    #[comptime] tiling: Tiling,
    #[define(F)] _dtype: ElemType,
) {
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    if CUBE_POS >= sizes.batch * sizes.key_heads * key_tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = CUBE_POS % key_tiles * comptime!(tiling.key_tile());
    let batch = CUBE_POS / key_tiles / sizes.key_heads;
    let key_head = CUBE_POS / key_tiles % sizes.key_heads;
    let key_row = (batch * sizes.key_heads + key_head) * sizes.keys + first_key;
    let valid_keys = min(comptime!(tiling.key_tile()), sizes.keys - first_key);
    let key_rows = RowsAt {
        first: key_row * sizes.size,
        valid: valid_keys,
    };
    let value_rows = RowsAt {
        first: key_row * sizes.value_size,
        valid: valid_keys,
    };
    let gradient_size = match comptime!(source) {
        Source::Context => sizes.value_size,
        Source::Given => sizes.keys,
    };

    let mut stage = Stage::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    let group = sizes.heads / sizes.key_heads;
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let mut is_first = true.runtime();
    for n in 0..group {
        let head = key_head * group + n;
        let mut of_bias = 0.0f32;
        for tile in 0..query_tiles {
            let start = uniform(mask.tile_start(batch, tile), &mut flag);
            let end = uniform(mask.tile_end(batch, tile, sizes.keys), &mut flag);
            if start < first_key + valid_keys && end > first_key {
                let first_query = tile * comptime!(tiling.query_tile());
                let query_row = (batch * sizes.heads + head) * sizes.queries + first_query;
                let valid = min(comptime!(tiling.query_tile()), sizes.queries - first_query);
                let query_rows = RowsAt {
                    first: query_row * sizes.size,
                    valid,
                };
                let gradient_rows = RowsAt {
                    first: query_row * gradient_size,
                    valid,
                };
                let at = TileAt {
                    batch,
                    head,
                    first_query,
                    first_key,
                };
                // As the forward pass chose: its statistics are of the same scores.
                let is_direct = match comptime!(form) {
                    Form::Dot => false.runtime(),
                    Form::Additive => is_far::<F>(
                        queries,
                        query_rows,
                        sizes.size,
                        &mut flag,
                        comptime!(tiling.units()),
                    ),
                };
                score_gradients::<F>(
                    &mut weights,
                    &mut gradients,
                    &mut stage,
                    queries,
                    query_rows,
                    keys,
                    key_rows,
                    values,
                    value_rows,
                    &weight,
                    &bias,
                    gradient,
                    gradient_rows,
                    &mask,
                    &dropout,
                    &noted,
                    at,
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
                            value_rows,
                            &pairs,
                            gradient,
                            gradient_rows,
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
                        key_rows,
                        &pairs,
                        queries,
                        query_rows,
                        sizes.size,
                        sizes.scale,
                        is_first,
                        tiling,
                    ),
                    Form::Additive => add_to_additive_keys::<F>(
                        to_keys, &mut stage, &pairs, queries, query_rows, keys, key_rows, &weight,
                        sizes.size, is_direct, is_first, tiling,
                    ),
                }
                if comptime!(has_bias) {
                    if unit < valid_keys {
                        for row in 0..valid {
                            let pair = pairs[row * comptime!(tiling.key_tile()) + unit];
                            of_bias += select(pair == MASKED, 0.0f32, pair);
                        }
                    }
                }
                is_first = false;
            }
        }
        if comptime!(has_bias) {
            if unit < valid_keys {
                to_bias[(batch * sizes.heads + head) * sizes.keys + first_key + unit] = of_bias;
            }
        }
    }

    if is_first {
        // No query.
        let mut index = unit;
        while index < valid_keys * sizes.size {
            to_keys[key_rows.first + index] = 0.0f32;
            index += comptime!(tiling.units());
        }
        match comptime!(source) {
            Source::Context => {
                let mut index = unit;
                while index < valid_keys * sizes.value_size {
                    to_values[value_rows.first + index] = 0.0f32;
                    index += comptime!(tiling.units());
                }
            }
            Source::Given => {}
        }
    }
}

impl Backward<'_> {
    /// The gradients of keys, values and bias, in f32; the latter two only of a context.
    pub(super) fn to_keys(&self, source: Source, form: Form) -> [CubeTensor; 3] {
        let problem = self.problem;
        let [batch, heads, _, size] = problem.queries.shape().dims();
        let [_, key_heads, keys, _] = problem.keys.shape().dims();
        let tiling = problem.tiling();
        let client = &problem.queries.client;
        let cubes = batch * key_heads * keys.div_ceil(tiling.key_tile());
        let to_keys = problem.empty([batch, key_heads, keys, size]);
        let to_values = match source {
            Source::Context => problem.empty(problem.values.shape()),
            Source::Given => problem.empty([1]),
        };
        let has_bias = problem.bias.is_some();
        let to_bias = match has_bias {
            true => problem.empty([batch, heads, 1, keys]),
            false => problem.empty([1]),
        };
        backward_keys::launch(
            client,
            cube_count(client, cubes),
            CubeDim::new_1d(tiling.units() as u32),
            problem.address_type(&[self.gradient, &to_bias]),
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
            source,
            form,
            has_bias,
            tiling,
            element_type(problem.queries.dtype()),
        );
        [to_keys, to_values, to_bias]
    }
}
