//! Backward to the queries, and to the weight of additive scores. A cube has the queries of one tile, and goes through
//! their keys or a part of them.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::additive_gradient::add_to_additive_queries;
use crate::backward::{Backward, sum_of_rows};
use crate::gradient::{Noted, Source, score_gradients};
use crate::mask::Mask;
use crate::pairs::{Form, RowsAt, Stage, is_far};
use crate::parts::Parts;
use crate::problem::{Dropout, Sizes};
use crate::tensors::{cube_count, element_type};
use crate::tile::{KeyTile, QueryTile, add_products, shared_index, uniform};
use crate::tiling::Tiling;

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
    // Of each part of the keys.
    to_queries: &mut [f32],
    // Of additive scores, a row for each group of queries of each tile and part.
    to_weight: &mut [f32],
    sizes: Sizes,
    // The keys of a part, whole tiles.
    part_keys: usize,
    #[comptime] source: Source,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
    #[define(F)] _dtype: ElemType,
) {
    let tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let part = CUBE_POS / (sizes.batch * sizes.heads * tiles);
    if part * part_keys >= sizes.keys {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let tile = CUBE_POS % tiles;
    let head = CUBE_POS / tiles % sizes.heads;
    let batch = CUBE_POS / tiles / sizes.heads % sizes.batch;
    let query_tile = QueryTile::new(batch, head, tile, sizes, tiling);
    let query_rows = query_tile.rows(sizes.size);
    let to_row = part * sizes.batch * sizes.heads * sizes.queries + query_tile.row;
    let to_rows = RowsAt {
        first: to_row * sizes.size,
        valid: query_tile.valid,
    };
    let weight_row = CUBE_POS * comptime!(tiling.gradient_groups());

    let mut stage = Stage::new(tiling);
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut ones = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    if unit < comptime!(tiling.query_tile()) {
        ones[unit] = 1.0f32;
    }
    let is_direct = is_far::<F>(queries, query_rows, sizes.size, &mut flag, form, tiling);

    let end = uniform(mask.tile_end(batch, tile, sizes.keys), &mut flag);
    let end = min(end, (part + 1) * part_keys);
    let mut first_key = uniform(mask.tile_start(batch, tile), &mut flag);
    first_key = max(
        first_key - first_key % comptime!(tiling.key_tile()),
        part * part_keys,
    );
    // As in the forward pass, no flag.
    let start = first_key;
    let mut weights = Array::<f32>::new(comptime!(tiling.pairs()));
    let mut gradients = Array::<f32>::new(comptime!(tiling.pairs()));
    while first_key < end {
        let is_first = first_key == start;
        let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
        let key_rows = key_tile.rows(sizes.size);
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
        sync_cube();
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            pairs[shared_index(pair, tiling)] = gradients[pair];
        }
        sync_cube();
        match comptime!(form) {
            Form::Dot => add_products::<F>(
                to_queries,
                to_rows,
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
                to_queries, to_rows, to_weight, weight_row, &mut stage, &pairs, queries,
                query_rows, keys, key_rows, &weight, sizes.size, is_direct, is_first, tiling,
            ),
        }
        first_key += comptime!(tiling.key_tile());
    }

    if first_key == start {
        // No key.
        let mut index = unit;
        while index < query_tile.valid * sizes.size {
            to_queries[to_rows.first + index] = 0.0f32;
            index += comptime!(tiling.units());
        }
    }
    match comptime!(form) {
        Form::Dot => {}
        Form::Additive => {
            // Groups without a query.
            let groups = if first_key == start {
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

impl Backward<'_> {
    /// The gradients of the queries and of the weight of additive scores, in f32.
    pub(crate) fn to_queries(&self) -> (CubeTensor, Option<CubeTensor>) {
        let problem = self.problem;
        let [batch, heads, queries, size] = problem.queries.shape().dims();
        let [_, _, keys, _] = problem.keys.shape().dims();
        let tiling = problem.tiling();
        let client = &problem.queries.client;
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        let elements = batch * heads * queries * size;
        let parts = Parts::new(cubes, keys.div_ceil(tiling.key_tile()), elements);
        let cubes = cubes * parts.count;
        let to_queries = problem.empty([parts.count, elements]);
        let to_weight = match problem.form {
            Form::Dot => problem.empty([1, 1]),
            Form::Additive => problem.empty([cubes * tiling.gradient_groups(), size]),
        };
        backward_queries::launch(
            client,
            cube_count(client, cubes),
            CubeDim::new_1d(tiling.units() as u32),
            problem.address_type(&[self.gradient, &to_queries, &to_weight]),
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
            parts.tiles * tiling.key_tile(),
            self.source,
            problem.form,
            tiling,
            element_type(problem.queries.dtype()),
        );
        let to_queries = sum_of_rows(to_queries);
        (
            CubeBackend::float_reshape(to_queries, problem.queries.shape()),
            (problem.form == Form::Additive).then(|| sum_of_rows(to_weight)),
        )
    }
}
