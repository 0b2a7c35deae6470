//! Attention to the context, forward: tiles of keys, and of each query a running maximum, sum and context.
//!
//! Milakov & Gimelshein 2018; Dao et al. 2022, 2023. A cube has the queries of one tile, and goes through the keys that
//! any of them attends to. Only it reads and writes their rows of the context, which therefore lie in global memory:
//! values may have any size. Where there are few queries, several cubes share the keys, and what they found is put
//! together afterwards.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::launch::Problem;
use crate::mask::Mask;
use crate::math::{error_of_sum, exp, greater, reciprocal_in_two_parts};
use crate::pairs::{Form, RowsAt, Stage, is_far, scores};
use crate::parts::{Parts, put_together};
use crate::philox::WeightIndex;
use crate::problem::{Dropout, Sizes};
use crate::tensors::{cube_count, element_type};
use crate::tile::{KeyTile, MASKED, QueryTile, add_products, masked_scores, shared_index, uniform};
use crate::tiling::Tiling;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(crate) fn forward<F: Float>(
    queries: &[F],
    keys: &[F],
    values: &[F],
    weight: ComptimeOption<OwnedTensor<f32>>,
    bias: ComptimeOption<OwnedTensor<f32>>,
    mask: Mask,
    dropout: Dropout,
    // Of each part of the keys.
    context: &mut [f32],
    // Of each part and query, the greatest score, and the sum of exponentials, or if there is one part its reciprocal.
    statistics: &mut [f32],
    sizes: Sizes,
    // The keys of a part, whole tiles.
    part_keys: usize,
    #[comptime] is_whole: bool,
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
    let to_row = part * sizes.batch * sizes.heads * sizes.queries + query_tile.row;
    let context_rows = RowsAt {
        first: to_row * sizes.value_size,
        valid: query_tile.valid,
    };

    let mut stage = Stage::new(tiling);
    // Scores, then weights; of pairs that are masked, `MASKED`.
    let mut weights =
        Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(tiling.units()));
    let mut factors = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let is_direct = is_far::<F>(
        queries,
        query_tile.rows(sizes.size),
        sizes.size,
        &mut flag,
        form,
        tiling,
    );

    // As one of `lanes` units of a query.
    let row = unit / comptime!(tiling.lanes());
    let lane = unit % comptime!(tiling.lanes());
    let mut maximum = MASKED.runtime();
    let mut sum = 0.0f32;
    // What `sum` misses. An error of the sum would be one of the whole context, which the weights of the backward pass
    // would not have: the gradients of a query's scores would not add up to 0.
    let mut missed = 0.0f32;

    let end = uniform(mask.tile_end(batch, tile, sizes.keys), &mut flag);
    let end = min(end, (part + 1) * part_keys);
    let mut first_key = uniform(mask.tile_start(batch, tile), &mut flag);
    first_key = max(
        first_key - first_key % comptime!(tiling.key_tile()),
        part * part_keys,
    );
    // Not a flag that the loop sets: pliron-spirv 0.16 loses a constant that one iteration hands to the next.
    let start = first_key;
    while first_key < end {
        let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);
        let mut sums = Array::<f32>::new(comptime!(tiling.pairs()));
        scores::<F>(
            &mut sums,
            &mut stage,
            queries,
            query_tile.rows(sizes.size),
            keys,
            key_tile.rows(sizes.size),
            &weight,
            sizes.size,
            is_direct,
            form,
            tiling,
        );
        masked_scores(&mut sums, query_tile, key_tile, &mask, &bias, sizes, tiling);
        #[unroll]
        for pair in 0..comptime!(tiling.pairs()) {
            weights[shared_index(pair, tiling)] = sums[pair];
        }
        sync_cube();

        let mut tile_maximum = MASKED.runtime();
        #[unroll]
        for n in 0..comptime!(tiling.key_tile() / tiling.lanes()) {
            let key = n * comptime!(tiling.lanes()) + lane;
            tile_maximum = greater(
                weights[row * comptime!(tiling.key_tile()) + key],
                tile_maximum,
            );
        }
        lanes[unit] = tile_maximum;
        sync_cube();
        let before = maximum;
        #[unroll]
        for n in 0..comptime!(tiling.lanes()) {
            maximum = greater(lanes[row * comptime!(tiling.lanes()) + n], maximum);
        }
        let factor = exp(before - maximum);
        let scaled = sum * factor;
        missed = fma(missed, factor, fma(sum, factor, -scaled));
        sum = scaled;
        if lane == 0 {
            factors[row] = factor;
        }
        #[unroll]
        for n in 0..comptime!(tiling.key_tile() / tiling.lanes()) {
            let key = n * comptime!(tiling.lanes()) + lane;
            let index = row * comptime!(tiling.key_tile()) + key;
            let score = weights[index];
            if score <= MASKED {
                weights[index] = MASKED;
            } else {
                let weight = exp(score - maximum);
                let next = sum + weight;
                missed += error_of_sum(sum, weight, next);
                sum = next;
                let at = WeightIndex {
                    batch: batch as u32,
                    head: head as u32,
                    query: (query_tile.first + row) as u32,
                    key: (first_key + key) as u32,
                };
                weights[index] = weight * dropout.factor(&at);
            }
        }
        sync_cube();

        add_products::<F>(
            context,
            context_rows,
            &weights,
            values,
            key_tile.rows(sizes.value_size),
            sizes.value_size,
            1.0f32,
            &factors,
            first_key == start,
            tiling,
        );
        first_key += comptime!(tiling.key_tile());
    }

    let mut total = 0.0f32;
    let mut missed_by_total = 0.0f32;
    lanes[unit] = sum;
    sync_cube();
    if lane == 0 {
        #[unroll]
        for n in 0..comptime!(tiling.lanes()) {
            let other = lanes[row * comptime!(tiling.lanes()) + n];
            let next = total + other;
            missed_by_total += error_of_sum(total, other, next);
            total = next;
        }
    }
    sync_cube();
    lanes[unit] = missed;
    sync_cube();
    if lane == 0 {
        #[unroll]
        for n in 0..comptime!(tiling.lanes()) {
            missed_by_total += lanes[row * comptime!(tiling.lanes()) + n];
        }
        // Of a query without any key, 0.
        let (reciprocal, rest) = reciprocal_in_two_parts(total, missed_by_total);
        factors[row] = reciprocal;
        lanes[unit] = rest;
        if row < query_tile.valid {
            statistics[2 * (to_row + row)] = maximum;
            let second = 2 * (to_row + row) + 1;
            if comptime!(is_whole) {
                // Without the rest, which all weights of the query have in common.
                statistics[second] = reciprocal;
            } else {
                statistics[second] = total + missed_by_total;
            }
        }
    }
    sync_cube();
    let row_group = unit / tiling.key_groups;
    #[unroll]
    for n in 0..tiling.rows {
        let row = row_group * tiling.rows + n;
        if row < query_tile.valid {
            let mut column = unit % tiling.key_groups;
            while column < sizes.value_size {
                let index = (to_row + row) * sizes.value_size + column;
                if first_key == start || factors[row] == 0.0f32 {
                    context[index] = 0.0f32;
                } else if comptime!(is_whole) {
                    let rest = lanes[row * comptime!(tiling.lanes())];
                    let sum = context[index];
                    context[index] = fma(sum, factors[row], sum * rest);
                }
                column += tiling.key_groups;
            }
        }
    }
}

impl Problem {
    /// The context, `[batch, heads, queries, value_size]` in f32, and the statistics of each query.
    pub fn forward(&self) -> [CubeTensor; 2] {
        let [batch, heads, queries, _] = self.queries.shape().dims();
        let [_, _, keys, value_size] = self.values.shape().dims();
        let tiling = self.tiling();
        let client = &self.queries.client;
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        let elements = batch * heads * queries * value_size;
        let parts = Parts::new(cubes, keys.div_ceil(tiling.key_tile()), elements);
        let context = self.empty([parts.count, batch, heads, queries, value_size]);
        let statistics = self.empty([parts.count, batch, heads, queries, 2]);
        forward::launch(
            client,
            cube_count(client, cubes * parts.count),
            CubeDim::new_1d(tiling.units() as u32),
            self.address_type(&[&context]),
            self.queries.clone().into_buffer_arg(),
            self.keys.clone().into_buffer_arg(),
            self.values.clone().into_buffer_arg(),
            self.weight_arg(),
            self.bias_arg(),
            self.mask_arg(),
            self.dropout_arg(),
            context.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            self.sizes(),
            parts.tiles * tiling.key_tile(),
            parts.count == 1,
            self.form,
            tiling,
            element_type(self.queries.dtype()),
        );
        let [context, statistics] = if parts.count == 1 {
            [context, statistics]
        } else {
            put_together(context, statistics)
        };
        [
            CubeBackend::float_reshape(context, [batch, heads, queries, value_size].into()),
            CubeBackend::float_reshape(statistics, [batch, heads, queries, 2].into()),
        ]
    }
}
