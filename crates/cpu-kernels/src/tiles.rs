//! The sizes of tiles: how much each loop takes at a time, what that fits in, and what was traded.
//!
//! | fits in | size | of |
//! | --- | --- | --- |
//! | registers | `BLOCK_ROWS`, `block_vectors` in `simd::gemm` | products: a sum for each row and vector |
//! | L1, L2 | [`PRODUCT_DEPTH`], [`PRODUCT_PANEL`] | large products: 16 KiB of a panel on AVX2, all 64 on AVX-512 |
//! | L2 | [`PRODUCT_STEPS`], [`PRODUCT_TASK_ROWS`] | large products: a task's rows are at most 192 KiB of `f32` |
//! | L2 | [`OWN_PANELS`] | large products of not many rows: 512 KiB of `f32` |
//! | L3 | [`OWN_PANEL_LEFT`], [`TRANSPOSED_TILES`] | large products: the copy of a left operand |
//! | L3 | [`PRODUCT_COLUMNS`] | large products: a packed block is at most 2 MiB of `f32` |
//! | the cores | [`PRODUCT_ROWS`], [`PRODUCT_TASKS`] | tasks of large products |
//! | the cores | [`OWN_PANEL_ROWS`] | large products: what is packed for all tasks |
//! | the cores | [`RECURRENT_ROWS`] | tasks of a recurrent layer |
//! | the cores | [`SCATTER_TASKS`] | tasks of rows that are added to a table |
//! | L3, memory | [`CROSS_ENTROPY_LOGITS`], [`CROSS_ENTROPY_ROWS`] | rows at a time in a cross-entropy |
//! | L2 | [`CROSS_ENTROPY_JOINED`] | rows at a time in a cross-entropy of parts |
//! | rounding | [`SUMMED_ROWS`] | sums of columns |
//! | rounding, the cores | [`NORMALIZED_ROWS`] | sums over normalized rows |
//! | L1 | [`SUMMED_COLUMNS`] | sums of columns |
//! | packing | [`PACKED_ROWS`] | products: it does not pay |
//! | memory's latency | [`PACKED_AHEAD`], `PREFETCHED_STEPS` in `simd::gemm` | packing, results of products |
//! | what handing out costs | [`TRANSPOSED_ROWS`], [`JOINED_ROWS`] | small tasks |
//!
//! No size depends on a machine's caches, and none on its cores but [`RECURRENT_ROWS`] and the panels of a task that
//! packs them itself, up to [`OWN_PANELS`]; no result depends on these.

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

/// About how many tasks a whole block of a large product has at least, if it has that many panels.
pub(crate) const PRODUCT_TASKS: usize = 16;

/// Rows that are summed by themselves in the sums of columns.
pub(crate) const SUMMED_ROWS: usize = 64;

/// The most columns in a task of such sums: 8 KiB of `f32`, which stay in L1 while the rows go by, and long enough for
/// a processor to fetch ahead by itself.
pub(crate) const SUMMED_COLUMNS: usize = 2048;

/// The fewest and the most rows of a task that adds up the gradients of a normalization's parameters. Its sums are as
/// much memory as one row, or two, of the many that it reads.
pub(crate) const NORMALIZED_ROWS: [usize; 2] = [16, 64];

/// Logits that are there at a time in a cross-entropy: 8 MiB of `f32`, which the products around them take from L3.
pub(crate) const CROSS_ENTROPY_LOGITS: usize = 1 << 21;

/// The fewest rows at a time in a cross-entropy: each reads the packed weight and adds to its gradient once.
pub(crate) const CROSS_ENTROPY_ROWS: usize = 192;

/// Features that are concatenated at a time in a cross-entropy of parts: they stay in L2.
pub(crate) const CROSS_ENTROPY_JOINED: usize = 1 << 18;

/// Rows in a task that concatenates features.
pub(crate) const JOINED_ROWS: usize = 64;

/// Tasks of rows that are added to a table: each reads all indices.
pub(crate) const SCATTER_TASKS: usize = 16;

/// The fewest and the most examples in a task of a recurrent layer. More read the packed weights less often, fewer
/// leave more tasks: within these bounds, threads share them evenly.
pub(crate) const RECURRENT_ROWS: [usize; 2] = [8, 64];
