//! One tile of pairs: what is masked, and its products with rows.
//!
//! A tile lies in shared memory as `[queries, keys]`, with [`MASKED`] where a pair is masked.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::mask::Mask;
use crate::pairs::RowsAt;
use crate::problem::Sizes;
use crate::tiling::{Tiling, UNROLLED, unrolled};

/// Of a pair that is masked.
pub(crate) const MASKED: f32 = f32::MIN;

/// The queries of a tile.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct QueryTile {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    /// The head of keys and values that they read.
    pub(crate) key_head: usize,
    pub(crate) first: usize,
    /// The first of them among the queries of all examples and heads.
    pub(crate) row: usize,
    /// The queries that there are.
    pub(crate) valid: usize,
}

#[cube]
impl QueryTile {
    pub(crate) fn new(
        batch: usize,
        head: usize,
        tile: usize,
        sizes: Sizes,
        #[comptime] tiling: Tiling,
    ) -> QueryTile {
        let first = tile * comptime!(tiling.query_tile());
        QueryTile {
            batch,
            head,
            key_head: head * sizes.key_heads / sizes.heads,
            first,
            row: (batch * sizes.heads + head) * sizes.queries + first,
            valid: min(comptime!(tiling.query_tile()), sizes.queries - first),
        }
    }

    /// Their rows in a tensor with `size` elements for each.
    pub(crate) fn rows(&self, size: usize) -> RowsAt {
        RowsAt {
            first: self.row * size,
            valid: self.valid,
        }
    }
}

/// The keys of a tile.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct KeyTile {
    pub(crate) first: usize,
    /// The first of them among the keys of all examples and heads.
    pub(crate) row: usize,
    /// The keys that there are.
    pub(crate) valid: usize,
}

#[cube]
impl KeyTile {
    pub(crate) fn new(
        batch: usize,
        key_head: usize,
        first: usize,
        sizes: Sizes,
        #[comptime] tiling: Tiling,
    ) -> KeyTile {
        KeyTile {
            first,
            row: (batch * sizes.key_heads + key_head) * sizes.keys + first,
            valid: min(comptime!(tiling.key_tile()), sizes.keys - first),
        }
    }

    /// Their rows in a tensor with `size` elements for each.
    pub(crate) fn rows(&self, size: usize) -> RowsAt {
        RowsAt {
            first: self.row * size,
            valid: self.valid,
        }
    }
}

/// From the products of this unit's pairs to their scores: scaled, the bias added, [`MASKED`] where masked
/// or beyond the queries.
#[cube]
pub(crate) fn masked_scores(
    sums: &mut Array<f32>,
    query_tile: QueryTile,
    key_tile: KeyTile,
    mask: &Mask,
    bias: &ComptimeOption<OwnedTensor<f32>>,
    sizes: Sizes,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    #[unroll]
    for row in 0..tiling.rows {
        let query = query_tile.first + unit / tiling.key_groups * tiling.rows + row;
        let is_query = query < sizes.queries;
        let query = min(query, sizes.queries - 1);
        let start = mask.start(query_tile.batch, query);
        let end = mask.end(query_tile.batch, query, sizes.keys);
        #[unroll]
        for key in 0..tiling.keys {
            let column = key_tile.first + key * tiling.key_groups + unit % tiling.key_groups;
            let pair = comptime!(row * tiling.keys + key);
            let mut is_attended = is_query && column >= start && column < end;
            if is_attended {
                is_attended = mask.keeps(query_tile.batch, query_tile.head, query, column);
            }
            if is_attended {
                #[comptime]
                match bias {
                    ComptimeOption::Some(bias) => {
                        let of_head = query_tile.head * sizes.bias_head;
                        let index = query_tile.batch * sizes.bias_batch + of_head;
                        let added = bias[index + column];
                        let score = fma(sums[pair], sizes.scale, added);
                        // Minus infinity masks a key, whatever its score is.
                        sums[pair] = select(added < MASKED, MASKED, score);
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
pub(crate) fn shared_index(#[comptime] pair: usize, #[comptime] tiling: Tiling) -> usize {
    let unit = UNIT_POS as usize;
    let row = unit / tiling.key_groups * tiling.rows + comptime!(pair / tiling.keys);
    let key = comptime!(pair % tiling.keys * tiling.key_groups) + unit % tiling.key_groups;
    row * comptime!(tiling.key_tile()) + key
}

/// The first unit's `x`, for all units of the cube. Has barriers.
#[cube]
pub(crate) fn uniform(x: usize, slot: &mut Shared<[u32]>) -> usize {
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
pub(crate) fn add_products<F: Float>(
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
    // Of a block of keys: a sum of short sums rounds less than a long one.
    let mut partial = Array::<f32>::new(tiling.rows);
    while column < size {
        #[unroll]
        for n in 0..tiling.rows {
            sums[n] = 0.0f32;
        }
        for block in 0..comptime!(tiling.key_tile() / UNROLLED) {
            #[unroll]
            for n in 0..tiling.rows {
                partial[n] = 0.0f32;
            }
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
                    let sum = fma(pair, x, partial[n]);
                    partial[n] = select(pair == MASKED, partial[n], sum);
                }
            }
            #[unroll]
            for n in 0..tiling.rows {
                sums[n] += partial[n];
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
pub(crate) fn add_transposed_products<F: Float>(
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
    let keys = comptime!(tiling.keys_of_group());
    let at_once = comptime!(unrolled(keys));
    let rows_at_once = comptime!(unrolled(tiling.query_tile()));
    let mut sums = Array::<f32>::new(at_once);
    for part in 0..comptime!(keys / at_once) {
        let first_key = unit / tiling.key_groups * keys + part * at_once;
        let mut column = unit % tiling.key_groups;
        while column < size {
            #[unroll]
            for n in 0..at_once {
                sums[n] = 0.0f32;
            }
            for block in 0..comptime!(tiling.query_tile() / rows_at_once) {
                #[unroll]
                for row in 0..rows_at_once {
                    let row = block * rows_at_once + row;
                    // Beyond the queries all is masked.
                    let from_row = min(row, from_rows.valid - 1);
                    let x = f32::cast_from(from[from_rows.first + from_row * size + column]);
                    #[unroll]
                    for n in 0..at_once {
                        let pair = pairs[row * comptime!(tiling.key_tile()) + first_key + n];
                        sums[n] += select(pair == MASKED, 0.0f32, pair * x);
                    }
                }
            }
            add_column(
                to, to_rows, first_key, column, size, &sums, scale, is_first, at_once,
            );
            column += tiling.key_groups;
        }
    }
}

/// Adds `factor sums` to one column of `count` rows, or puts them there if these hold nothing yet.
#[cube]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
pub(crate) fn add_column(
    to: &mut [f32],
    rows: RowsAt,
    first: usize,
    column: usize,
    size: usize,
    sums: &Array<f32>,
    factor: f32,
    is_first: bool,
    #[comptime] count: usize,
) {
    #[unroll]
    for n in 0..count {
        if first + n < rows.valid {
            let index = rows.first + (first + n) * size + column;
            let sum = factor * sums[n];
            if is_first {
                to[index] = sum;
            } else {
                to[index] += sum;
            }
        }
    }
}
