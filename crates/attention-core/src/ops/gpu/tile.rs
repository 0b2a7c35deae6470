//! One tile of pairs: what is masked, and its products with rows.
//!
//! A tile lies in shared memory as `[queries, keys]`, with [`MASKED`] where a pair is masked.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::mask::Mask;
use super::pairs::RowsAt;
use super::problem::Sizes;
use super::tiling::Tiling;

/// Of a pair that is masked.
pub(super) const MASKED: f32 = f32::MIN;

/// Rows or keys of a tile that are taken in one iteration of a loop; it divides both. Loops are long otherwise: Mesa's
/// software Vulkan ends them after 65,535 iterations of one unit, without a word.
pub(super) const UNROLLED: usize = 8;

/// Where a tile of pairs lies.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct TileAt {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) first_query: usize,
    pub(super) first_key: usize,
}

/// From the products of this unit's pairs to their scores: scaled, the bias added, [`MASKED`] where masked
/// or beyond the queries.
#[cube]
pub(super) fn masked_scores(
    sums: &mut Array<f32>,
    at: TileAt,
    mask: &Mask,
    bias: &ComptimeOption<OwnedTensor<f32>>,
    sizes: Sizes,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    #[unroll]
    for row in 0..tiling.rows {
        let query = at.first_query + unit / tiling.key_groups * tiling.rows + row;
        let is_query = query < sizes.queries;
        let query = min(query, sizes.queries - 1);
        let start = mask.start(at.batch, query);
        let end = mask.end(at.batch, query, sizes.keys);
        #[unroll]
        for key in 0..tiling.keys {
            let column = at.first_key + key * tiling.key_groups + unit % tiling.key_groups;
            let pair = comptime!(row * tiling.keys + key);
            let mut is_attended = is_query && column >= start && column < end;
            if is_attended {
                is_attended = mask.keeps(at.batch, at.head, query, column);
            }
            if is_attended {
                #[comptime]
                match bias {
                    ComptimeOption::Some(bias) => {
                        let index = at.batch * sizes.bias_batch + at.head * sizes.bias_head;
                        sums[pair] = fma(sums[pair], sizes.scale, bias[index + column]);
                    }
                    ComptimeOption::None => {
                        sums[pair] *= sizes.scale;
                    }
                }
            } else {
                sums[pair] = MASKED;
            }
        }
    }
}

/// Where a pair of this unit lies in a tile in shared memory.
#[cube]
pub(super) fn shared_index(#[comptime] pair: usize, #[comptime] tiling: Tiling) -> usize {
    let unit = UNIT_POS as usize;
    let row = unit / tiling.key_groups * tiling.rows + comptime!(pair / tiling.keys);
    let key = comptime!(pair % tiling.keys * tiling.key_groups) + unit % tiling.key_groups;
    row * comptime!(tiling.key_tile()) + key
}

/// The first unit's `x`, for all units of the cube. Has barriers.
#[cube]
pub(super) fn uniform(x: usize, slot: &mut Shared<[u32]>) -> usize {
    if UNIT_POS == 0 {
        slot[0] = x as u32;
    }
    let x = workgroup_uniform_load(&slot[0]);
    // Only in WGSL has the load a barrier after it, too.
    sync_cube();
    x as usize
}

/// `pairs rows`, added to the rows of the tile's queries after these were multiplied by `factors`: or in their place,
/// if they hold nothing yet. A unit has its queries, and every `key_groups`-th column.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(super) fn add_products<F: Float>(
    to: &mut [f32],
    to_rows: RowsAt,
    pairs: &Shared<[f32]>,
    from: &[F],
    from_rows: RowsAt,
    size: usize,
    scale: f32,
    factors: &Shared<[f32]>,
    is_first: bool,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let first_row = unit / tiling.key_groups * tiling.rows;
    let mut column = unit % tiling.key_groups;
    let mut sums = Array::<f32>::new(tiling.rows);
    while column < size {
        #[unroll]
        for n in 0..tiling.rows {
            sums[n] = 0.0f32;
        }
        for block in 0..comptime!(tiling.key_tile() / UNROLLED) {
            #[unroll]
            for key in 0..UNROLLED {
                let key = block * UNROLLED + key;
                // Beyond the keys all is masked.
                let from_row = min(key, from_rows.valid - 1);
                let x = f32::cast_from(from[from_rows.first + from_row * size + column]);
                #[unroll]
                for n in 0..tiling.rows {
                    let pair = pairs[(first_row + n) * comptime!(tiling.key_tile()) + key];
                    // What a masked pair would be multiplied with does not count, whatever it is.
                    sums[n] += select(pair == MASKED, 0.0f32, pair * x);
                }
            }
        }
        #[unroll]
        for n in 0..tiling.rows {
            if first_row + n < to_rows.valid {
                let index = to_rows.first + (first_row + n) * size + column;
                let sum = scale * sums[n];
                if is_first {
                    to[index] = sum;
                } else {
                    to[index] = fma(to[index], factors[first_row + n], sum);
                }
            }
        }
        column += tiling.key_groups;
    }
}

/// `pairs^T rows`, added to the rows of the tile's keys, or put there if they hold nothing yet. A unit has as many
/// neighbouring keys as go round, and every `key_groups`-th column.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(super) fn add_transposed_products<F: Float>(
    to: &mut [f32],
    to_rows: RowsAt,
    pairs: &Shared<[f32]>,
    from: &[F],
    from_rows: RowsAt,
    size: usize,
    scale: f32,
    is_first: bool,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let keys = comptime!(tiling.key_tile() / tiling.row_groups);
    let first_key = unit / tiling.key_groups * keys;
    let mut column = unit % tiling.key_groups;
    let mut sums = Array::<f32>::new(keys);
    while column < size {
        #[unroll]
        for n in 0..keys {
            sums[n] = 0.0f32;
        }
        for block in 0..comptime!(tiling.query_tile() / UNROLLED) {
            #[unroll]
            for row in 0..UNROLLED {
                let row = block * UNROLLED + row;
                // Beyond the queries all is masked.
                let from_row = min(row, from_rows.valid - 1);
                let x = f32::cast_from(from[from_rows.first + from_row * size + column]);
                #[unroll]
                for n in 0..keys {
                    let pair = pairs[row * comptime!(tiling.key_tile()) + first_key + n];
                    sums[n] += select(pair == MASKED, 0.0f32, pair * x);
                }
            }
        }
        #[unroll]
        for n in 0..keys {
            if first_key + n < to_rows.valid {
                let index = to_rows.first + (first_key + n) * size + column;
                let sum = scale * sums[n];
                if is_first {
                    to[index] = sum;
                } else {
                    to[index] += sum;
                }
            }
        }
        column += tiling.key_groups;
    }
}
