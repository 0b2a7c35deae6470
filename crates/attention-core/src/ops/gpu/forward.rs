//! Attention to the context, forward: tiles of keys, and of each query a running maximum, sum and context.
//!
//! Milakov & Gimelshein 2018; Dao et al. 2022, 2023. A cube has the queries of one tile, and goes through the keys that
//! any of them attends to. Only it reads and writes their rows of the context, which therefore lie in global memory:
//! values may have any size.

use burn::backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{Problem, cube_count, element_type};
use super::mask::Mask;
use super::math::{exp, greater};
use super::pairs::{Form, RowsAt, Stage, is_far, scores};
use super::philox::WeightIndex;
use super::problem::{Dropout, Sizes};
use super::tile::{MASKED, TileAt, add_products, masked_scores, shared_index, uniform};
use super::tiling::Tiling;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(super) fn forward<F: Float>(
    queries: &[F],
    keys: &[F],
    values: &[F],
    weight: ComptimeOption<OwnedTensor<f32>>,
    bias: ComptimeOption<OwnedTensor<f32>>,
    mask: Mask,
    dropout: Dropout,
    context: &mut [f32],
    // Of each query, the greatest score and the reciprocal of the sum of exponentials.
    statistics: &mut [f32],
    sizes: Sizes,
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
    let query_rows = RowsAt {
        first: query_row * sizes.size,
        valid: min(comptime!(tiling.query_tile()), sizes.queries - first_query),
    };

    let mut stage = Stage::new(tiling);
    // Scores, then weights; of pairs that are masked, `MASKED`.
    let mut weights =
        Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(tiling.units()));
    let mut factors = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
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

    // As one of `lanes` units of a query.
    let row = unit / comptime!(tiling.lanes());
    let lane = unit % comptime!(tiling.lanes());
    let mut maximum = MASKED.runtime();
    let mut sum = 0.0f32;

    let end = uniform(mask.tile_end(batch, tile, sizes.keys), &mut flag);
    let mut first_key = uniform(mask.tile_start(batch, tile), &mut flag);
    first_key -= first_key % comptime!(tiling.key_tile());
    let mut is_first = true.runtime();
    while first_key < end {
        let key_row = (batch * sizes.key_heads + key_head) * sizes.keys + first_key;
        let key_rows = RowsAt {
            first: key_row * sizes.size,
            valid: min(comptime!(tiling.key_tile()), sizes.keys - first_key),
        };
        let mut sums = Array::<f32>::new(comptime!(tiling.pairs()));
        scores::<F>(
            &mut sums, &mut stage, queries, query_rows, keys, key_rows, &weight, sizes.size,
            is_direct, form, tiling,
        );
        let at = TileAt {
            batch,
            head,
            first_query,
            first_key,
        };
        masked_scores(&mut sums, at, &mask, &bias, sizes, tiling);
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
        sum *= factor;
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
                sum += weight;
                let at = WeightIndex {
                    batch: batch as u32,
                    head: head as u32,
                    query: (first_query + row) as u32,
                    key: (first_key + key) as u32,
                };
                weights[index] = weight * dropout.factor(&at);
            }
        }
        sync_cube();

        let value_rows = RowsAt {
            first: key_row * sizes.value_size,
            valid: key_rows.valid,
        };
        let context_rows = RowsAt {
            first: query_row * sizes.value_size,
            valid: query_rows.valid,
        };
        add_products::<F>(
            context,
            context_rows,
            &weights,
            values,
            value_rows,
            sizes.value_size,
            1.0f32,
            &factors,
            is_first,
            tiling,
        );
        is_first = false;
        first_key += comptime!(tiling.key_tile());
    }

    lanes[unit] = sum;
    sync_cube();
    if lane == 0 {
        let mut total = 0.0f32;
        #[unroll]
        for n in 0..comptime!(tiling.lanes()) {
            total += lanes[row * comptime!(tiling.lanes()) + n];
        }
        // Of a query without any key, 0.
        let reciprocal = select(total == 0.0f32, 0.0f32, 1.0f32 / total);
        factors[row] = reciprocal;
        if row < query_rows.valid {
            statistics[2 * (query_row + row)] = maximum;
            statistics[2 * (query_row + row) + 1] = reciprocal;
        }
    }
    sync_cube();
    let row_group = unit / tiling.key_groups;
    #[unroll]
    for n in 0..tiling.rows {
        let row = row_group * tiling.rows + n;
        if row < query_rows.valid {
            let mut column = unit % tiling.key_groups;
            while column < sizes.value_size {
                let index = (query_row + row) * sizes.value_size + column;
                if is_first || factors[row] == 0.0f32 {
                    context[index] = 0.0f32;
                } else {
                    context[index] *= factors[row];
                }
                column += tiling.key_groups;
            }
        }
    }
}

impl Problem {
    /// The context, `[batch, heads, queries, value_size]` in f32, and the statistics of each query.
    pub(in crate::ops) fn forward(&self, form: Form) -> [CubeTensor; 2] {
        let [batch, heads, queries, _] = self.queries.shape().dims();
        let [_, _, _, value_size] = self.values.shape().dims();
        let context = self.empty([batch, heads, queries, value_size]);
        let statistics = self.empty([batch, heads, queries, 2]);
        let tiling = self.tiling();
        let client = &self.queries.client;
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        forward::launch(
            client,
            cube_count(client, cubes),
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
            form,
            tiling,
            element_type(self.queries.dtype()),
        );
        [context, statistics]
    }
}
