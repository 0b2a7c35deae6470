//! The scores of all pairs, 0 where masked.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::launch::Problem;
use crate::mask::Mask;
use crate::pairs::{Form, Stage, is_far, scores};
use crate::problem::Sizes;
use crate::tensors::{cube_count, element_type};
use crate::tile::{KeyTile, MASKED, QueryTile, masked_scores};
use crate::tiling::Tiling;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
fn all_scores<F: Float>(
    queries: &[F],
    keys: &[F],
    weight: ComptimeOption<OwnedTensor<f32>>,
    mask: Mask,
    to: &mut [f32],
    sizes: Sizes,
    #[comptime] form: Form,
    #[comptime] tiling: Tiling,
    #[define(F)] _dtype: ElemType,
) {
    let query_tiles = sizes.queries.div_ceil(comptime!(tiling.query_tile()));
    let key_tiles = sizes.keys.div_ceil(comptime!(tiling.key_tile()));
    if CUBE_POS >= sizes.batch * sizes.heads * query_tiles * key_tiles {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let first_key = CUBE_POS % key_tiles * comptime!(tiling.key_tile());
    let tile = CUBE_POS / key_tiles % query_tiles;
    let head = CUBE_POS / key_tiles / query_tiles % sizes.heads;
    let batch = CUBE_POS / key_tiles / query_tiles / sizes.heads;
    let query_tile = QueryTile::new(batch, head, tile, sizes, tiling);
    let key_tile = KeyTile::new(batch, query_tile.key_head, first_key, sizes, tiling);

    let mut stage = Stage::new(tiling);
    let mut flag = Shared::<[u32]>::new_slice(1usize);
    let is_direct = is_far::<F>(
        queries,
        query_tile.rows(sizes.size),
        sizes.size,
        &mut flag,
        form,
        tiling,
    );
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
    let no_bias = ComptimeOption::new_None();
    masked_scores(
        &mut sums, query_tile, key_tile, &mask, &no_bias, sizes, tiling,
    );
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

impl Problem {
    /// The scores, `[batch, heads, queries, keys]` in f32.
    pub fn scores(&self) -> CubeTensor {
        let [batch, heads, queries, _] = self.queries.shape().dims();
        let [_, _, keys, _] = self.keys.shape().dims();
        let scores = self.empty([batch, heads, queries, keys]);
        let tiling = self.tiling();
        let client = &self.queries.client;
        let tiles = queries.div_ceil(tiling.query_tile()) * keys.div_ceil(tiling.key_tile());
        all_scores::launch(
            client,
            cube_count(client, batch * heads * tiles),
            CubeDim::new_1d(tiling.units() as u32),
            self.address_type(&[&scores]),
            self.queries.clone().into_buffer_arg(),
            self.keys.clone().into_buffer_arg(),
            self.weight_arg(),
            self.mask_arg(),
            scores.clone().into_buffer_arg(),
            self.sizes(),
            self.form,
            tiling,
            element_type(self.queries.dtype()),
        );
        scores
    }
}
