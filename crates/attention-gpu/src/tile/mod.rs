//! One tile of pairs: its mask, and its products with rows.
//!
//! A tile lies in shared memory as `[queries, keys]`, with [`MASKED`] where a pair is masked.

pub(crate) mod math;
pub(crate) mod operands;
pub(crate) mod rows;
pub(crate) mod score_tile;
pub(crate) mod tiling;

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::host::mask::MASKED;
use crate::host::modifiers::PairIndex;
use crate::tile::operands::{Operands, Sizes};
use crate::tile::rows::{Rows, RowsAt};
use crate::tile::tiling::{Tiling, UNROLLED, unrolled};

/// The place of a cube, whose position counts `[splits, batch, heads, tiles]`.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct CubePlace {
    pub(crate) split: usize,
    pub(crate) batch: usize,
    pub(crate) head: usize,
    pub(crate) tile: usize,
}

#[cube]
impl CubePlace {
    pub(crate) fn new(batch: usize, heads: usize, tiles: usize) -> CubePlace {
        CubePlace {
            split: CUBE_POS / (batch * heads * tiles),
            batch: CUBE_POS / tiles / heads % batch,
            head: CUBE_POS / tiles % heads,
            tile: CUBE_POS % tiles,
        }
    }
}

/// The queries of a tile.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct QueryTile {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    /// The head of keys and values that they attend to.
    pub(crate) key_head: usize,
    /// The index of the first query.
    pub(crate) first: usize,
    /// The index of the first query among the queries of all examples and heads.
    pub(crate) row: usize,
    /// The number of queries, which may be smaller in the last tile.
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
        RowsAt::new(self.row, self.valid, size)
    }

    /// The index of the first query in a result that repeats all queries for each split.
    pub(crate) fn row_of_split(&self, split: usize, sizes: Sizes) -> usize {
        split * sizes.batch * sizes.heads * sizes.queries + self.row
    }

    pub(crate) fn queries<'a, F: Float>(&self, operands: &'a Operands<F>) -> Rows<'a, F> {
        Rows::<F>::new(&operands.queries, self.rows(operands.sizes.size))
    }
}

/// The keys of a tile.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct KeyTile {
    /// The index of the first key.
    pub(crate) first: usize,
    /// The index of the first key among the keys of all examples and heads.
    pub(crate) row: usize,
    /// The number of keys, which may be smaller in the last tile.
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
        RowsAt::new(self.row, self.valid, size)
    }

    /// The index of the first key in a result that repeats all keys for each split.
    pub(crate) fn row_of_split(&self, split: usize, sizes: Sizes) -> usize {
        split * sizes.batch * sizes.key_heads * sizes.keys + self.row
    }

    pub(crate) fn keys<'a, F: Float>(&self, operands: &'a Operands<F>) -> Rows<'a, F> {
        Rows::<F>::new(&operands.keys, self.rows(operands.sizes.size))
    }

    pub(crate) fn values<'a, F: Float>(&self, operands: &'a Operands<F>) -> Rows<'a, F> {
        Rows::<F>::new(&operands.values, self.rows(operands.sizes.value_size))
    }
}

/// The keys that a cube with one tile of queries processes.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct KeyRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[cube]
impl KeyRange {
    /// The keys of a split between the first and the last one that a query of a tile attends to, beginning with a whole
    /// tile of keys. Has barriers.
    pub(crate) fn new<F: Float>(
        operands: &Operands<F>,
        place: CubePlace,
        split_keys: usize,
        slot: &mut Shared<[u32]>,
    ) -> KeyRange {
        let key_tile = comptime!(operands.tiling.key_tile());
        let mask = &operands.mask;
        let end = uniform(
            mask.tile_end(place.batch, place.tile, operands.sizes.keys),
            slot,
        );
        let start = uniform(mask.tile_start(place.batch, place.tile), slot);
        KeyRange {
            start: max(start - start % key_tile, place.split * split_keys),
            end: min(end, (place.split + 1) * split_keys),
        }
    }
}

/// Turns sums over queries and keys into the scores of this unit's pairs: scaled unless capped, with biases added,
/// [`MASKED`] where masked or beyond the queries.
#[cube]
pub(crate) fn mask_scores<F: Float>(
    sums: &mut Array<f32>,
    query_tile: QueryTile,
    key_tile: KeyTile,
    operands: &Operands<F>,
) {
    let tiling = comptime!(operands.tiling);
    let sizes = operands.sizes;
    let unit = UNIT_POS as usize;
    let modifiers = &operands.modifiers;
    let factor = modifiers.factor(sizes.scale);
    #[unroll]
    for row in 0..tiling.rows {
        let query = query_tile.first + unit / tiling.key_groups * tiling.rows + row;
        let is_query = query < sizes.queries;
        let query = min(query, sizes.queries - 1);
        let start = operands.mask.start(query_tile.batch, query);
        let end = operands.mask.end(query_tile.batch, query, sizes.keys);
        #[unroll]
        for key in 0..tiling.keys {
            let column = key_tile.first + key * tiling.key_groups + unit % tiling.key_groups;
            let pair = comptime!(row * tiling.keys + key);
            let mut is_attended = is_query && column >= start && column < end;
            if is_attended {
                let mask = &operands.mask;
                is_attended = mask.keeps(query_tile.batch, query_tile.head, query, column);
            }
            if is_attended {
                let at = PairIndex {
                    batch: query_tile.batch,
                    head: query_tile.head,
                    query,
                    key: column,
                    zero_distance: sizes.queries - 1,
                };
                sums[pair] = modifiers.add_biases(sums[pair], factor, at);
            } else {
                sums[pair] = MASKED;
            }
        }
    }
}

/// Writes the pairs of all units to a tile in shared memory. Has barriers before and after.
#[cube]
pub(crate) fn share(tile: &mut Shared<[f32]>, pairs: &Array<f32>, #[comptime] tiling: Tiling) {
    sync_cube();
    #[unroll]
    for pair in 0..comptime!(tiling.pairs()) {
        tile[shared_index(pair, tiling)] = pairs[pair];
    }
    sync_cube();
}

/// The index of a pair of this unit in a tile in shared memory.
#[cube]
pub(crate) fn shared_index(#[comptime] pair: usize, #[comptime] tiling: Tiling) -> usize {
    let unit = UNIT_POS as usize;
    let row = unit / tiling.key_groups * tiling.rows + comptime!(pair / tiling.keys);
    let key = comptime!(pair % tiling.keys * tiling.key_groups) + unit % tiling.key_groups;
    row * comptime!(tiling.key_tile()) + key
}

/// The first unit's `x`, passed to all units of the cube. Has barriers.
#[cube]
pub(crate) fn uniform(x: usize, slot: &mut Shared<[u32]>) -> usize {
    if UNIT_POS == 0 {
        slot[0] = x as u32;
    }
    let x = workgroup_uniform_load(&slot[0]);
    // Only in WGSL does the load include a barrier after it.
    sync_cube();
    x as usize
}

/// Multiplies the rows of the tile's queries by `factors` and adds `scale pairs from`; the first time, overwrites them.
/// A unit processes its queries, and every `key_groups`-th column.
#[cube]
pub(crate) fn add_products<F: Float>(
    to: &mut [f32],
    to_rows: RowsAt,
    pairs: &Shared<[f32]>,
    from: Rows<F>,
    scale: f32,
    factors: &Shared<[f32]>,
    is_first: bool,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let size = to_rows.size;
    let first_row = unit / tiling.key_groups * tiling.rows;
    let mut column = unit % tiling.key_groups;
    let mut sums = Array::<f32>::new(tiling.rows);
    // Sums over a block of keys: adding short sums rounds less than one long sum.
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
                // Beyond the keys everything is masked.
                let from_row = min(key, from.at.valid - 1);
                let x = f32::cast_from(from.elements[from.at.first + from_row * size + column]);
                #[unroll]
                for n in 0..tiling.rows {
                    let pair = pairs[(first_row + n) * comptime!(tiling.key_tile()) + key];
                    // A masked pair does not count, whatever it would be multiplied by.
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

/// Adds `scale pairs^T from` to the rows of the tile's keys; the first time, overwrites them. A unit processes its
/// neighbouring keys, and every `key_groups`-th column.
#[cube]
pub(crate) fn add_transposed_products<F: Float>(
    to: &mut [f32],
    to_rows: RowsAt,
    pairs: &Shared<[f32]>,
    from: Rows<F>,
    scale: f32,
    is_first: bool,
    #[comptime] tiling: Tiling,
) {
    let unit = UNIT_POS as usize;
    let size = to_rows.size;
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
                    // Beyond the queries everything is masked.
                    let from_row = min(row, from.at.valid - 1);
                    let x = f32::cast_from(from.elements[from.at.first + from_row * size + column]);
                    #[unroll]
                    for n in 0..at_once {
                        let pair = pairs[row * comptime!(tiling.key_tile()) + first_key + n];
                        sums[n] += select(pair == MASKED, 0.0f32, pair * x);
                    }
                }
            }
            add_column(
                to, to_rows, first_key, column, &sums, scale, is_first, at_once,
            );
            column += tiling.key_groups;
        }
    }
}

/// Writes 0 to the rows of a tile from element `first` on, using all units.
#[cube]
pub(crate) fn write_zeros(to: &mut [f32], rows: RowsAt, first: usize, #[comptime] tiling: Tiling) {
    let mut index = first + UNIT_POS as usize;
    while index < rows.valid * rows.size {
        to[rows.first + index] = 0.0f32;
        index += comptime!(tiling.units());
    }
}

/// Adds `factor sums` to one column of `count` rows; the first time, overwrites it.
#[cube]
pub(crate) fn add_column(
    to: &mut [f32],
    rows: RowsAt,
    first: usize,
    column: usize,
    sums: &Array<f32>,
    factor: f32,
    is_first: bool,
    #[comptime] count: usize,
) {
    #[unroll]
    for n in 0..count {
        if first + n < rows.valid {
            let index = rows.first + (first + n) * rows.size + column;
            let sum = factor * sums[n];
            if is_first {
                to[index] = sum;
            } else {
                to[index] += sum;
            }
        }
    }
}
