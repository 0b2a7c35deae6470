//! The sizes of tiles: how much each loop takes at a time, what that fits in, and what was traded.
//!
//! | fits in | size | of |
//! | --- | --- | --- |
//! | registers | [`QUERY_TILE`] | the additive score: a sum for each query and vector of keys or units |
//! | registers | [`GATHER_ROWS`], [`GATHER_VECTORS`] | decoding: a sum for each row, or each vector of a row |
//! | registers | `BLOCK_ROWS`, `block_vectors` in `simd::gemm` | products: a sum for each row and vector |
//! | L1 | [`KEY_LANES`] | the additive score, forward: 16 keys of 256 units are 16 KiB of `f32` |
//! | L1 | [`UNIT_LANES`] | additive attention, backward: 16 units of 128 keys and of their sums are 16 KiB |
//! | L1 | `panel_width` in `simd::gemm` | products: at most 64 keys of 64 elements are 16 KiB |
//! | L2 | [`QUERY_BLOCK`], [`KEY_TILE`], [`KEY_STRIDE`] | fused attention: a tile of scores is 27 KiB, twice backward |
//! | panels | [`KEY_PANEL`] | a tile of fused attention starts with a panel of products |
//! | L2 | [`SCORE_QUERIES`] | the additive score, forward: 32 queries of 256 units are 32 KiB |
//! | rounding | [`UNIT_CHUNK`] | the additive score, forward: a sum of 16 terms |
//! | the cores | [`TASK_QUERIES`], [`KEY_CHUNK`], [`TASKS`] | tasks of fused attention |
//! | the cores | [`SCORE_KEYS`], [`SCORE_TASKS`] | tasks of the additive score's gradients |
//! | L1, L2 | [`PRODUCT_DEPTH`], [`PRODUCT_PANEL`] | large products: 16 KiB of a panel on AVX2, all 64 on AVX-512 |
//! | L2 | [`PRODUCT_STEPS`], [`PRODUCT_TASK_ROWS`] | large products: a task's rows are at most 192 KiB of `f32` |
//! | L2 | [`OWN_PANELS`] | large products of not many rows: 512 KiB of `f32` |
//! | L3 | [`OWN_PANEL_LEFT`], [`TRANSPOSED_TILES`] | large products: the copy of a left operand |
//! | L3 | [`PRODUCT_COLUMNS`] | large products: a packed block is at most 2 MiB of `f32` |
//! | the cores | [`PRODUCT_ROWS`], [`PRODUCT_TASKS`] | tasks of large products |
//! | the cores | [`RECURRENT_ROWS`] | tasks of a recurrent layer |
//! | the cores | [`SCATTER_TASKS`] | tasks of rows that are added to a table |
//! | L3, memory | [`CROSS_ENTROPY_LOGITS`], [`CROSS_ENTROPY_ROWS`] | rows at a time in a cross-entropy |
//! | L2 | [`CROSS_ENTROPY_JOINED`] | rows at a time in a cross-entropy of parts |
//! | rounding | [`SUMMED_ROWS`] | sums of columns |
//! | L1 | [`SUMMED_COLUMNS`] | sums of columns |
//! | packing | [`ADDITIVE_DECODE_QUERIES`], [`DOT_PRODUCT_DECODE_QUERIES`] | decoding: it does not pay |
//! | packing | [`PACKED_ROWS`] | products: it does not pay |
//! | memory's latency | [`PACKED_AHEAD`], `PREFETCHED_STEPS` in `simd::gemm` | packing, results of products |
//! | the cores | [`OWN_PANEL_ROWS`] | large products: what is packed for all tasks |
//! | what handing out costs | [`DECODE_HEADS`], [`PACKED_BLOCKS`], [`TRANSPOSED_ROWS`], [`JOINED_ROWS`] | small tasks |
//! | what handing out costs | [`TASK_ELEMENTS`], [`TASK_PRODUCTS`] | small tasks |
//!
//! What must stay in L1 is thus [`KEY_LANES`] keys where additive scores are computed, which grows with the units;
//! [`UNIT_LANES`] units of [`KEY_TILE`] keys in their gradients; and a panel in fused attention. The gradients of the
//! score alone go beyond it: their tasks take more keys, up to all of a head, and then read them from L2. No size
//! depends on a machine's caches, and none on its cores but [`RECURRENT_ROWS`] and the panels of a task that packs
//! them itself, up to [`OWN_PANELS`]; no result depends on these.

/// Queries whose sums stay in registers while the keys go by, in the additive score forward and backward. Four
/// leave an AVX2 machine's sixteen registers room for the rest; fewer would load each key more often.
pub(crate) const QUERY_TILE: usize = 4;

/// Keys that stand side by side in a packed block of the additive score: one, two or four vectors of every level. A
/// block is read once for each tile of queries and stays in L1; more keys would push it out, and would leave fewer
/// registers for the sums of the queries.
pub(crate) const KEY_LANES: usize = 16;

/// Hidden units that stand side by side in the gradients of the additive score: whole vectors of every level. A column
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

/// Tasks of the fused backward kernels at least, where there are so many chunks of keys: enough for the cores of most
/// machines. Each chunk beyond the first costs a copy of the queries' gradient.
pub(crate) const TASKS: usize = 16;

/// The least keys in a chunk of the fused backward kernels: packing the queries again for each chunk must cost little
/// beside the products.
pub(crate) const KEY_CHUNK: usize = 2 * KEY_TILE;

/// Queries in a task of the additive score: their exponentials take half of a small second-level cache, beside a block
/// of keys.
pub(crate) const SCORE_QUERIES: usize = 32;

/// The least keys in a task of the additive score's gradients: its queries are exponentiated again for each task.
pub(crate) const SCORE_KEYS: usize = 4 * KEY_LANES;

/// Tasks of the additive score's gradients at least, where there are so many keys. Each part of the keys beyond the
/// first costs a copy of the queries' gradient.
pub(crate) const SCORE_TASKS: usize = 8;

/// The most queries of additive decoding: one tile, so that each block of keys is read once for all of them.
pub(crate) const ADDITIVE_DECODE_QUERIES: usize = QUERY_TILE;

/// The most queries of dot-product decoding: up to this many, packing does not pay.
pub(crate) const DOT_PRODUCT_DECODE_QUERIES: usize = 2;

/// Heads in a task of additive decoding at least: one takes a few microseconds.
pub(crate) const DECODE_HEADS: usize = 4;

/// Blocks of keys in a task that packs them at least: one is little work beside handing it out.
pub(crate) const PACKED_BLOCKS: usize = 4;

/// Gathered rows that are multiplied at once with another, so that their sums do not wait for each other.
pub(crate) const GATHER_ROWS: usize = 4;

/// Vectors of a row that a sum of gathered rows keeps in registers.
pub(crate) const GATHER_VECTORS: usize = 4;

/// Elements in a task that passes over them once or twice, as the masked softmax does: some tens of microseconds, far
/// above what handing it out costs.
pub(crate) const TASK_ELEMENTS: usize = 1 << 15;

/// Multiply-adds in a task of dot-product decoding: some tens of microseconds, as above.
pub(crate) const TASK_PRODUCTS: usize = 1 << 18;

/// Columns in a panel of a large product: the widest register block of any instruction set.
pub(crate) const PRODUCT_PANEL: usize = 64;

/// Rows from which on the right operand of a product is packed: for fewer, to read it once is all that there is to do.
pub(crate) const PACKED_ROWS: usize = 12;

/// Steps of a large product that are taken at a time. More would push what a register block reads of a panel out of L1
/// (AVX2), or the panel out of L2, and add to the rounding of a sum; fewer would load and store the sums more often.
pub(crate) const PRODUCT_DEPTH: usize = 256;

/// How many rows ahead of the one that is packed are fetched: rows are far apart, and a processor does not fetch the
/// next one by itself. Eight rows of a panel are copied in about the time in which memory answers.
pub(crate) const PACKED_AHEAD: usize = 8;

/// The bytes of a cache line, and of the longest vector: one that begins with a line lies on no other.
pub(crate) const CACHE_LINE: usize = 64;

/// Steps in a block of a large product's right operand, which is packed once for all rows of a task or of the product.
pub(crate) const PRODUCT_STEPS: usize = 512;

/// Rows in a task that copies or transposes the left operand of a large product: two vectors of the longest.
pub(crate) const TRANSPOSED_ROWS: usize = 32;

/// Tiles of a task's rows whose copy of a large product's left operand, a transpose or several, is there at a time:
/// some 3 MiB of `f32`. More tiles are multiplied after these, so that no more tasks are handed out at once.
pub(crate) const TRANSPOSED_TILES: usize = 16;

/// The most rows of a large product whose tasks pack the right operand themselves, each its columns: so few rows read
/// what is packed that the tasks would wait for all of it about as long as they compute.
pub(crate) const OWN_PANEL_ROWS: usize = 1024;

/// The most panels of a task that packs its own: 512 KiB of `f32`, in L2. More than one are packed row by row, so that
/// memory is read in order, and [`PRODUCT_TASK_ROWS`] of the left operand are read for all of them while in L2.
pub(crate) const OWN_PANELS: usize = 4;

/// Elements of the left operand's copy, a transpose or several, that is there at a time for such tasks: some 2 MiB of
/// `f32`.
pub(crate) const OWN_PANEL_LEFT: usize = 1 << 19;

/// Columns in a block of a large product's right operand.
pub(crate) const PRODUCT_COLUMNS: usize = 1024;

/// Rows in a task of a large product are a multiple of it: whole register blocks.
pub(crate) const PRODUCT_ROWS: usize = 6;

/// The most rows in a task of a large product, or that are multiplied at a time in one that packs its own panels: with
/// [`PRODUCT_STEPS`] steps they stay in L2 while the panels go by.
pub(crate) const PRODUCT_TASK_ROWS: usize = 96;

/// About how many tasks a whole block of a large product has at least, where it has so many panels.
pub(crate) const PRODUCT_TASKS: usize = 16;

/// Rows that are summed by themselves in the sums of columns.
pub(crate) const SUMMED_ROWS: usize = 64;

/// The most columns in a task of such sums: 8 KiB of `f32`, which stay in L1 while the rows go by, and long enough for
/// a processor to fetch ahead by itself.
pub(crate) const SUMMED_COLUMNS: usize = 2048;

/// Logits that are there at a time in a cross-entropy: 8 MiB of `f32`, which the products around them take from L3.
pub(crate) const CROSS_ENTROPY_LOGITS: usize = 1 << 21;

/// The fewest rows at a time in a cross-entropy: each reads the packed weight and adds to its gradient once.
pub(crate) const CROSS_ENTROPY_ROWS: usize = 192;

/// Features that are put side by side at a time in a cross-entropy of parts: they stay in L2.
pub(crate) const CROSS_ENTROPY_JOINED: usize = 1 << 18;

/// Rows in a task that puts features side by side.
pub(crate) const JOINED_ROWS: usize = 64;

/// Tasks of rows that are added to a table: each looks at all indices.
pub(crate) const SCATTER_TASKS: usize = 16;

/// The fewest and the most examples in a task of a recurrent layer. More read the packed weights less often, fewer
/// leave more tasks: each thread has as many, within these bounds.
pub(crate) const RECURRENT_ROWS: [usize; 2] = [8, 64];
