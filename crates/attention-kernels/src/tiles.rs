//! The sizes of tiles: how much each loop takes at a time, which memory that fits, and what was traded.
//!
//! | fits in | size | used by |
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
//! | packing | [`ADDITIVE_DECODE_QUERIES`], [`ROW_DECODE_QUERIES`] | decoding: packing does not pay |
//! | the cost of a task | [`DECODE_HEADS`], [`PACKED_BLOCKS`], [`TASK_PRODUCTS`] | small tasks |
//!
//! L1 must thus hold [`KEY_LANES`] keys for additive scores, which grows with the units; [`UNIT_LANES`] units of
//! [`KEY_TILE`] keys for their gradients; and a panel for fused attention. The gradients of the score alone exceed it:
//! their tasks take more keys, up to all of a head, and then read them from L2. No size depends on the caches or cores
//! of a machine.

use std::ops::Range;

/// The number of queries whose sums stay in registers while keys pass by, in the additive score forward and backward.
/// With four, an AVX2 machine's sixteen registers have room for the rest; fewer would load each key more often.
pub(crate) const QUERY_TILE: usize = 4;

/// The number of adjacent keys in a packed block of the additive score: one, two or four vectors of every level. A
/// block is read once for each tile of queries and stays in L1; more keys would push it out, and would leave fewer
/// registers for the sums of the queries.
pub(crate) const KEY_LANES: usize = 16;

/// The number of adjacent hidden units in the gradients of the additive score: whole vectors of every level. A column
/// of units of all rows stays in L1 while queries pass by.
pub(crate) const UNIT_LANES: usize = 16;

/// The number of hidden units that are summed separately. The terms of a score are much larger than their sum; a sum
/// that starts at minus half the chunk's weight stays small, and so does its rounding. Smaller chunks add more often.
pub(crate) const UNIT_CHUNK: usize = 16;

/// The most queries in a block of the fused kernels: a multiple of the rows of every product's register block.
pub(crate) const QUERY_BLOCK: usize = 48;

/// The largest number of keys in a tile of the fused kernels. More would push the tile's operands out of L2, fewer
/// would rescale the running sums more often.
pub(crate) const KEY_TILE: usize = 128;

/// The number of elements from one row of a tile of scores to the next: no power of two, which would map a column to
/// few sets of the cache.
pub(crate) const KEY_STRIDE: usize = KEY_TILE + 16;

/// Tiles of the fused kernels start at multiples of this: the widest panel of any instruction set.
pub(crate) const KEY_PANEL: usize = 64;

/// The queries in a task of the fused forward kernels: a few blocks, so that many queries read the packed keys.
pub(crate) const TASK_QUERIES: usize = 4 * QUERY_BLOCK;

/// The smallest number of tasks of the fused backward kernels, if there are enough chunks of keys: enough for the cores
/// of most machines. Each chunk beyond the first costs a copy of the gradient of the queries.
pub(crate) const TASKS: usize = 16;

/// The smallest number of keys in a chunk of the fused backward kernels: packing the queries again for each chunk must
/// cost little compared with the products.
pub(crate) const KEY_CHUNK: usize = 2 * KEY_TILE;

/// The number of keys whose sums with their locations stay in L1 until they become scores or gradients: 32 of 128 units
/// are 16 KiB of `f32`, beside filters of that size. Fewer would load and store the filters' gradient more often.
pub(crate) const LOCATION_KEYS: usize = 32;

/// The largest number of keys in a task of a location-sensitive step: some tens of microseconds.
pub(crate) const LOCATION_TASK: usize = 8 * LOCATION_KEYS;

/// The most tasks of the gradients of a location-sensitive step, each with its own sums of the filters' gradient.
pub(crate) const LOCATION_SUMS: usize = 16;

/// The number of queries in a task of the additive score: their exponentials take half of a small second-level cache,
/// beside a block of keys.
pub(crate) const SCORE_QUERIES: usize = 32;

/// The smallest number of keys in a task of the additive score's gradients: each task exponentiates its queries again.
pub(crate) const SCORE_KEYS: usize = 4 * KEY_LANES;

/// The smallest number of tasks of the additive score's gradients, if there are enough keys. Each part of the keys
/// beyond the first costs a copy of the gradient of the queries.
pub(crate) const SCORE_TASKS: usize = 8;

/// The most queries of additive decoding: one tile, so that each block of keys is read once for all queries.
pub(crate) const ADDITIVE_DECODE_QUERIES: usize = QUERY_TILE;

/// The largest number of queries of decoding by dot products and pairwise scores, for which packing does not pay.
pub(crate) const ROW_DECODE_QUERIES: usize = 2;

/// The smallest number of heads in a task of additive decoding: one takes a few microseconds.
pub(crate) const DECODE_HEADS: usize = 4;

/// The smallest number of blocks of keys in a task that packs them: one is too little work for a task.
pub(crate) const PACKED_BLOCKS: usize = 4;

/// The number of gathered rows multiplied at once by another row, so that their sums do not wait for each other.
pub(crate) const GATHER_ROWS: usize = 4;

/// The number of vectors of a row that a sum of gathered rows keeps in registers.
pub(crate) const GATHER_VECTORS: usize = 4;

/// The number of multiply-adds in a task of dot-product decoding: some tens of microseconds.
pub(crate) const TASK_PRODUCTS: usize = 1 << 18;

/// Cuts `0..count` queries into whole tiles and single queries.
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
