//! Scores of all pairs, 0 where masked.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::host::choice;
use crate::host::inputs::{AdditiveScoreInputs, AttentionInputs};
use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::operands::Operands;
use crate::tile::score_tile::{Stage, add_scores, needs_direct_tanh};
use crate::tile::{CubePlace, KeyTile, QueryTile, mask_scores};

#[cube(launch, address_type = "dynamic")]
fn all_scores<F: Float>(operands: &Operands<F>, to: &mut [f32], #[define(F)] _dtype: ElemType) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    let place = CubePlace::new(sizes.batch, sizes.heads, query_tiles * key_tiles);
    if place.split > 0 {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = place.tile % key_tiles * comptime!(tiling.key_tile());
    let tile = place.tile / key_tiles;
    let query_tile = QueryTile::new(place.batch, place.head, tile, sizes, tiling);
    let key_tile = KeyTile::new(place.batch, query_tile.key_head, first_key, sizes, tiling);

    let mut stage = Stage::new(tiling);
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let query_rows = query_tile.queries::<F>(operands);
    let is_direct = needs_direct_tanh::<F>(query_rows, &mut flag, operands.kind, tiling);
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
    mask_scores::<F>(&mut sums, query_tile, key_tile, operands);
    #[unroll]
    for row in 0..tiling.rows {
        let at_row = unit / tiling.key_groups * tiling.rows + row;
        #[unroll]
        for key in 0..tiling.keys {
            let at_key = key * tiling.key_groups + unit % tiling.key_groups;
            if at_row < query_tile.valid && at_key < key_tile.valid {
                let score = sums[comptime!(row * tiling.keys + key)];
                let index = (query_tile.row + at_row) * sizes.keys + first_key + at_key;
                to[index] = select(score == MASKED, 0.0f32, score);
            }
        }
    }
}

impl AdditiveScoreInputs {
    /// The scores, `[batch, heads, queries, keys]` in f32.
    ///
    /// # Panics
    /// If shapes or types do not fit together, a size is 0, a tensor is not contiguous, or the mask is for another
    /// number of queries.
    pub fn forward(&self) -> CubeTensor {
        let inputs = self.without_values();
        inputs.check();
        let tried = inputs.clone();
        let tiling = choice::tiling(
            &inputs,
            || "scores".to_string(),
            move |tiling| drop(tried.in_tiles_of(tiling).scores()),
        );
        inputs.in_tiles_of(tiling).scores()
    }
}

impl AttentionInputs {
    /// Only the scores, in the inputs' own tiling.
    pub(crate) fn scores(&self) -> CubeTensor {
        let inputs = self;
        let [batch, heads, queries, _] = inputs.queries.shape().dims();
        let [_, _, keys, _] = inputs.keys.shape().dims();
        let scores = inputs.empty([batch, heads, queries, keys]);
        let tiling = inputs.tiling();
        let client = &inputs.queries.client;
        let tiles = queries.div_ceil(tiling.query_tile()) * keys.div_ceil(tiling.key_tile());
        all_scores::launch(
            client,
            cube_count(client, batch * heads * tiles),
            CubeDim::new_1d(tiling.units() as u32),
            inputs.address_type(&[&scores]),
            inputs.operands(),
            scores.clone().into_buffer_arg(),
            element_type(inputs.queries.dtype()),
        );
        scores
    }
}
