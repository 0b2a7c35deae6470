//! The sizes of tiles: how much each loop takes at a time, what that fits in, and what was traded.
//!
//! | fits in | size | of |
//! | --- | --- | --- |
//! | registers | [`QUERY_TILE`] | the additive score: a sum for each query and vector of keys or units |
//! | registers | [`GATHER_ROWS`], [`GATHER_VECTORS`] | decoding: a sum for each row, or each vector of a row |
//! | L1 | [`KEY_LANES`] | the additive score, forward: 16 keys of 256 units are 16 KiB of `f32` |
//! | L1 | [`UNIT_LANES`] | additive attention, backward: 16 units of 128 keys and of their sums are 16 KiB |
//! | L1 | [`panel_width`](cpu_kernels::simd::gemm::panel_width) | products: at most 64 keys of 64 elements are 16 KiB |
//! | L1 | [`LOCATION_KEYS`] | a location-sensitive step: 32 keys of 128 units are 16 KiB |
//! | L2 | [`QUERY_BLOCK`], [`KEY_TILE`], [`KEY_STRIDE`] | fused attention: a tile of scores is 27 KiB, twice backward |
//! | panels | [`KEY_PANEL`] | a tile of fused attention starts with a panel of products |
//! | L2 | [`SCORE_QUERIES`] | the additive score, forward: 32 queries of 256 units are 32 KiB |
//! | rounding | [`UNIT_CHUNK`] | the additive score, forward: a sum of 16 terms |
//! | the cores | [`TASK_QUERIES`], [`KEY_CHUNK`], [`TASKS`] | tasks of fused attention |
//! | the cores | [`SCORE_KEYS`], [`SCORE_TASKS`] | tasks of the additive score's gradients |
//! | the cores | [`LOCATION_TASK`], [`LOCATION_SUMS`] | tasks of a location-sensitive step |
//! | packing | [`ADDITIVE_DECODE_QUERIES`], [`ROW_DECODE_QUERIES`] | decoding: it does not pay |
//! | what handing out costs | [`DECODE_HEADS`], [`PACKED_BLOCKS`], [`TASK_PRODUCTS`] | small tasks |
//!
//! L1 must thus hold [`KEY_LANES`] keys where additive scores are computed, which grows with the units;
//! [`UNIT_LANES`] units of [`KEY_TILE`] keys in their gradients; and a panel in fused attention. The gradients of the
//! score alone go beyond it: their tasks take more keys, up to all of a head, and then read them from L2. No size
//! depends on a machine's caches or cores.

use std::ops::Range;

/// Queries whose sums stay in registers while the keys go by, in the additive score forward and backward. Four
/// leave an AVX2 machine's sixteen registers room for the rest; fewer would load each key more often.
pub(crate) const QUERY_TILE: usize = 4;

/// Adjacent keys in a packed block of the additive score: one, two or four vectors of every level. A
/// block is read once for each tile of queries and stays in L1; more keys would push it out, and would leave fewer
/// registers for the sums of the queries.
pub(crate) const KEY_LANES: usize = 16;

/// Adjacent hidden units in the gradients of the additive score: whole vectors of every level. A column
/// of units of all rows stays in L1 while the queries go by.
pub(crate) const UNIT_LANES: usize = 16;

/// Hidden units that are summed by themselves. The terms of a score add up to much more than the score does; a sum that
/// starts at half the chunk's weight stays small, and so does its rounding. Fewer cost an addition more often.
pub(crate) const UNIT_CHUNK: usize = 16;

/// The most queries in a block of the fused kernels: a multiple of the rows of every product's register block.
pub(crate) const QUERY_BLOCK: usize = 48;

/// The most keys in a tile of the fused kernels. More would push the tile's operands out of L2, fewer would rescale the
/// running sums more often.
pub(crate) const KEY_TILE: usize = 128;

/// Elements from one row of a tile of scores to the next: no power of two, which would put a column into few sets of
/// the cache.
pub(crate) const KEY_STRIDE: usize = KEY_TILE + 16;

/// Tiles of the fused kernels start at multiples of it: the widest panel of any instruction set.
pub(crate) const KEY_PANEL: usize = 64;

/// Queries in a task of the fused forward kernels: a few blocks, so that the packed keys are read by many.
pub(crate) const TASK_QUERIES: usize = 4 * QUERY_BLOCK;

/// Tasks of the fused backward kernels at least, if there are enough chunks of keys: enough for the cores of most
/// machines. Each chunk beyond the first costs a copy of the queries' gradient.
pub(crate) const TASKS: usize = 16;

/// The least keys in a chunk of the fused backward kernels: packing the queries again for each chunk must cost little
/// beside the products.
pub(crate) const KEY_CHUNK: usize = 2 * KEY_TILE;

/// Keys whose sums with their locations stay in L1 on their way to scores or gradients: 32 of 128 units are 16 KiB of
/// `f32`, beside filters of as many. Fewer would load and store the filters' gradient more often.
pub(crate) const LOCATION_KEYS: usize = 32;

/// The most keys in a task of a location-sensitive step: some tens of microseconds.
pub(crate) const LOCATION_TASK: usize = 8 * LOCATION_KEYS;

/// Tasks of the gradients of a location-sensitive step at most: each has sums of the filters' gradient.
pub(crate) const LOCATION_SUMS: usize = 16;

/// Queries in a task of the additive score: their exponentials take half of a small second-level cache, beside a block
/// of keys.
pub(crate) const SCORE_QUERIES: usize = 32;

/// The least keys in a task of the additive score's gradients: its queries are exponentiated again for each task.
pub(crate) const SCORE_KEYS: usize = 4 * KEY_LANES;

/// Tasks of the additive score's gradients at least, if there are enough keys. Each part of the keys beyond the first
/// costs a copy of the queries' gradient.
pub(crate) const SCORE_TASKS: usize = 8;

/// The most queries of additive decoding: one tile, so that each block of keys is read once for all of them.
pub(crate) const ADDITIVE_DECODE_QUERIES: usize = QUERY_TILE;

/// The most queries of decoding by dot products and pairwise scores: up to this many, packing does not pay.
pub(crate) const ROW_DECODE_QUERIES: usize = 2;

/// Heads in a task of additive decoding at least: one takes a few microseconds.
pub(crate) const DECODE_HEADS: usize = 4;

/// Blocks of keys in a task that packs them at least: one is little work beside handing it out.
pub(crate) const PACKED_BLOCKS: usize = 4;

/// Gathered rows that are multiplied at once with another, so that their sums do not wait for each other.
pub(crate) const GATHER_ROWS: usize = 4;

/// Vectors of a row that a sum of gathered rows keeps in registers.
pub(crate) const GATHER_VECTORS: usize = 4;

/// Multiply-adds in a task of dot-product decoding: some tens of microseconds, as above.
pub(crate) const TASK_PRODUCTS: usize = 1 << 18;

/// Cuts `0..count` queries into whole tiles and single ones.
#[inline(always)]
pub(crate) fn query_tiles(count: usize) -> impl Iterator<Item = Range<usize>> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let start = first;
        first += if start + QUERY_TILE <= count {
            QUERY_TILE
        } else {
            1
        };
        (start < count).then_some(start..first)
    })
}
