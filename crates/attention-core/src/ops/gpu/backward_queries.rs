//! Backward to the queries, and to the weight of additive scores. A cube has the queries of one tile.

use burn::backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::backward::Backward;
use super::gradient::{Noted, Source, add_to_additive_queries, score_gradients};
use super::launch::{cube_count, element_type};
use super::mask::Mask;
use super::pairs::{Form, RowsAt, Stage, is_far};
use super::problem::{Dropout, Sizes};
use super::tile::{TileAt, add_products, shared_index, uniform};
use super::tiling::Tiling;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
fn backward_queries<F: Float>(
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
    to_queries: &mut [f32],
    // Of additive scores, a row for each group of queries of each tile.
    to_weight: &mut [f32],
    sizes: Sizes,
    #[comptime] source: Source,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
    #[define(F)] _dtype: ElemType,
) {
    let tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    if CUBE_POS >= sizes.batch * sizes.heads * tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let tile = CUBE_POS % tiles;
    let batch = CUBE_POS / tiles / sizes.heads;
    let head = CUBE_POS / tiles % sizes.heads;
    let key_head = head * sizes.key_heads / sizes.heads;
    let first_query = tile * comptime!(tiling.query_tile());
    let query_row = (batch * sizes.heads + head) * sizes.queries + first_query;
    let valid = min(comptime!(tiling.query_tile()), sizes.queries - first_query);
    let query_rows = RowsAt {
        first: query_row * sizes.size,
        valid,
    };
    let gradient_size = match comptime!(source) {
        Source::Context => sizes.value_size,
        Source::Given => sizes.keys,
    };
    let gradient_rows = RowsAt {
        first: query_row * gradient_size,
        valid,
    };
    let weight_row = CUBE_POS * comptime!(tiling.gradient_groups());

    let mut stage = Stage::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut ones = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    if unit < comptime!(tiling.query_tile()) {
        ones[unit] = 1.0f32;
    }
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

    let end = uniform(mask.tile_end(batch, tile, sizes.keys), &mut flag);
    let mut first_key = uniform(mask.tile_start(batch, tile), &mut flag);
    first_key -= first_key % comptime!(tiling.key_tile());
    let mut is_first = true.runtime();
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    while first_key < end {
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
        let at = TileAt {
            batch,
            head,
            first_query,
            first_key,
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
        sync_cube();
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            pairs[shared_index(pair, tiling)] = gradients[pair];
        }
        sync_cube();
        match comptime!(form) {
            Form::Dot => add_products::<F>(
                to_queries,
                query_rows,
                &pairs,
                keys,
                key_rows,
                sizes.size,
                sizes.scale,
                &ones,
                is_first,
                tiling,
            ),
            Form::Additive => add_to_additive_queries::<F>(
                to_queries, to_weight, weight_row, &mut stage, &pairs, queries, query_rows, keys,
                key_rows, &weight, sizes.size, is_direct, is_first, tiling,
            ),
        }
        is_first = false;
        first_key += comptime!(tiling.key_tile());
    }

    if is_first {
        // No key.
        let mut index = unit;
        while index < valid * sizes.size {
            to_queries[query_rows.first + index] = 0.0f32;
            index += comptime!(tiling.units());
        }
    }
    match comptime!(form) {
        Form::Dot => {}
        Form::Additive => {
            // Groups without a query.
            let groups = if is_first {
                0usize.runtime()
            } else {
                valid.div_ceil(comptime!(tiling.gradient_rows()))
            };
            let mut index = groups * sizes.size + unit;
            while index < comptime!(tiling.gradient_groups()) * sizes.size {
                to_weight[weight_row * sizes.size + index] = 0.0f32;
                index += comptime!(tiling.units());
            }
        }
    }
}

impl Backward<'_> {
    /// The gradient of the queries, and for additive scores rows whose sum is that of the weight; in f32.
    pub(super) fn to_queries(&self, source: Source, form: Form) -> [CubeTensor; 2] {
        let problem = self.problem;
        let [batch, heads, queries, size] = problem.queries.shape().dims();
        let tiling = problem.tiling();
        let client = &problem.queries.client;
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        let to_queries = problem.empty([batch, heads, queries, size]);
        let to_weight = match form {
            Form::Dot => problem.empty([1, 1]),
            Form::Additive => problem.empty([cubes * tiling.gradient_groups(), size]),
        };
        backward_queries::launch(
            client,
            cube_count(client, cubes),
            CubeDim::new_1d(tiling.units() as u32),
            problem.address_type(&[self.gradient, &to_weight]),
            problem.queries.clone().into_buffer_arg(),
            problem.keys.clone().into_buffer_arg(),
            problem.values.clone().into_buffer_arg(),
            problem.weight_arg(),
            problem.bias_arg(),
            problem.mask_arg(),
            problem.dropout_arg(),
            self.gradient.clone().into_buffer_arg(),
            self.noted(),
            to_queries.clone().into_buffer_arg(),
            to_weight.clone().into_buffer_arg(),
            problem.sizes(),
            source,
            form,
            tiling,
            element_type(problem.queries.dtype()),
        );
        [to_queries, to_weight]
    }
}
