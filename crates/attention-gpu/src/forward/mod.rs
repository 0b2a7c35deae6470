//! Attention up to the context, forward: tiles of keys, and for each query a running maximum, sum and context.
//!
//! Milakov & Gimelshein 2018; Dao et al. 2022, 2023. A cube processes the queries of one tile, and iterates over the
//! keys that any of them attends to. Only this cube reads and writes their rows of the context, which therefore lie in
//! global memory: values may have any size. If there are few queries, the keys are split among several cubes, whose
//! results are combined afterwards.

pub(crate) mod scores;
pub(crate) mod softmax;
pub(crate) mod splits;

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::forward::splits::{Splits, combine_splits};
use crate::host::choice;
use crate::host::dropout::WeightIndex;
use crate::host::inputs::{AttentionInputs, AttentionOutputs};
use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::math::{error_of_sum, exp, greater, reciprocal_in_two_parts};
use crate::tile::operands::Operands;
use crate::tile::rows::RowsAt;
use crate::tile::score_tile::{Stage, add_scores, needs_direct_tanh};
use crate::tile::{
    CubePlace, KeyRange, KeyTile, QueryTile, add_products, mask_scores, shared_index,
};

#[cube(launch, address_type = "dynamic")]
pub(crate) fn forward<F: Float>(
    operands: &Operands<F>,
    // `[heads]`
    sinks: &ComptimeOption<OwnedTensor<f32>>,
    // `[splits, batch, heads, queries, value_size]`
    context: &mut [f32],
    // `[splits, batch, heads, queries, 2]`: the largest score, and the sum of exponentials, or without splits its
    // reciprocal.
    statistics: &mut [f32],
    // The number of keys of a split, whole tiles.
    split_keys: usize,
    #[comptime] is_whole: bool,
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
    let context_rows = RowsAt::new(to_row, query_tile.valid, sizes.value_size);
    let query_rows = query_tile.queries::<F>(operands);

    let mut stage = Stage::new(tiling);
    // Scores, then weights; `MASKED` where masked.
    let mut weights =
        Shared::<[f32]>::new_slice(comptime!(tiling.query_tile() * tiling.key_tile()));
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(tiling.units()));
    let mut factors = Shared::<[f32]>::new_slice(comptime!(tiling.query_tile()));
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let is_direct = needs_direct_tanh::<F>(query_rows, &mut flag, operands.kind, tiling);

    // This unit is one of the `lanes` of a query.
    let row = unit / comptime!(tiling.lanes());
    let lane = unit % comptime!(tiling.lanes());
    let mut maximum = MASKED.runtime();
    let mut sum = 0.0f32;
    // The rounding error of `sum`. Without correcting it, the whole context would have this error, but the weights of
    // the backward pass would not: the gradients of a query's scores would not sum to 0.
    let mut error = 0.0f32;
    #[comptime]
    match sinks {
        ComptimeOption::Some(sinks) => {
            // It counts as a key of the first split, without a value.
            if place.split == 0 {
                let sink = sinks[place.head];
                maximum = greater(sink, maximum);
                if lane == 0 {
                    sum = exp(sink - maximum);
                }
            }
        }
        ComptimeOption::None => {}
    }

    let range = KeyRange::new::<F>(operands, place, split_keys, &mut flag);
    let mut first_key = range.start;
    while first_key < range.end {
        // Not a flag set by the loop: pliron-spirv 0.16 loses a constant that one iteration passes to the next.
        let is_first = first_key == range.start;
        let key_tile = KeyTile::new(place.batch, query_tile.key_head, first_key, sizes, tiling);
        let mut sums = Array::<f32>::new(comptime!(tiling.pairs()));
        add_scores::<F>(
            &mut sums,
            &mut stage,
            query_rows,
            key_tile.keys::<F>(operands),
            &operands.weight,
            is_direct,
            operands.kind,
            tiling,
        );
        let mut slopes = Array::<f32>::new(comptime!(tiling.pairs()));
        let pairs = comptime!(tiling.pairs());
        let modifiers = &operands.modifiers;
        modifiers.cap_scores(&mut sums, &mut slopes, sizes.scale, pairs);
        mask_scores::<F>(&mut sums, query_tile, key_tile, operands);
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
        error = fma(error, factor, fma(sum, factor, -scaled));
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
                error += error_of_sum(sum, weight, next);
                sum = next;
                let at = WeightIndex {
                    batch: place.batch as u32,
                    head: place.head as u32,
                    query: (query_tile.first + row) as u32,
                    key: (first_key + key) as u32,
                };
                weights[index] = weight * operands.dropout.factor(&at);
            }
        }
        sync_cube();

        add_products::<F>(
            context,
            context_rows,
            &weights,
            key_tile.values::<F>(operands),
            1.0f32,
            &factors,
            is_first,
            tiling,
        );
        first_key += comptime!(tiling.key_tile());
    }

    let mut total = 0.0f32;
    let mut total_error = 0.0f32;
    lanes[unit] = sum;
    sync_cube();
    if lane == 0 {
        #[unroll]
        for n in 0..comptime!(tiling.lanes()) {
            let other = lanes[row * comptime!(tiling.lanes()) + n];
            let next = total + other;
            total_error += error_of_sum(total, other, next);
            total = next;
        }
    }
    sync_cube();
    lanes[unit] = error;
    sync_cube();
    if lane == 0 {
        #[unroll]
        for n in 0..comptime!(tiling.lanes()) {
            total_error += lanes[row * comptime!(tiling.lanes()) + n];
        }
        // 0 for a query without keys.
        let (reciprocal, rest) = reciprocal_in_two_parts(total, total_error);
        factors[row] = reciprocal;
        lanes[unit] = rest;
        if row < query_tile.valid {
            statistics[2 * (to_row + row)] = maximum;
            let second = 2 * (to_row + row) + 1;
            if comptime!(is_whole) {
                // Without the rest, which is common to all weights of the query.
                statistics[second] = reciprocal;
            } else {
                statistics[second] = total + total_error;
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
                if first_key == range.start || factors[row] == 0.0f32 {
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

impl AttentionInputs {
    /// Attention, with the results that its backward pass needs.
    ///
    /// # Panics
    /// If shapes or types do not fit together, a size is 0, a tensor is not contiguous, or the mask is for another
    /// number of queries.
    pub fn forward(&self) -> AttentionOutputs {
        self.check();
        let tried = self.clone();
        let tiling = choice::tiling(
            self,
            || "forward".to_string(),
            move |tiling| drop(tried.in_tiles_of(tiling).forward_in_tiles()),
        );
        self.in_tiles_of(tiling).forward_in_tiles()
    }

    /// [`forward`](Self::forward) in the inputs' own tiling.
    pub(crate) fn forward_in_tiles(&self) -> AttentionOutputs {
        let [batch, heads, queries, _] = self.queries.shape().dims();
        let [_, _, keys, value_size] = self.values.shape().dims();
        let tiling = self.tiling();
        let client = &self.queries.client;
        let cubes = batch * heads * queries.div_ceil(tiling.query_tile());
        let elements = batch * heads * queries * value_size;
        let splits = Splits::new(cubes, keys.div_ceil(tiling.key_tile()), elements);
        let context = self.empty([splits.count, batch, heads, queries, value_size]);
        let statistics = self.empty([splits.count, batch, heads, queries, 2]);
        let sinks = self.modifiers.sinks.clone();
        forward::launch(
            client,
            cube_count(client, cubes * splits.count),
            CubeDim::new_1d(tiling.units() as u32),
            self.address_type(&[&context]),
            self.operands(),
            sinks.map(CubeTensor::into_tensor_arg).into(),
            context.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            splits.tiles * tiling.key_tile(),
            splits.count == 1,
            element_type(self.queries.dtype()),
        );
        let [context, statistics] = if splits.count == 1 {
            [context, statistics]
        } else {
            combine_splits(context, statistics)
        };
        AttentionOutputs {
            context: CubeBackend::float_reshape(
                context,
                [batch, heads, queries, value_size].into(),
            ),
            statistics: CubeBackend::float_reshape(statistics, [batch, heads, queries, 2].into()),
        }
    }
}
