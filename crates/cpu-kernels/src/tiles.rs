//! The sizes of tiles: how much each loop takes at a time, which memory that fits, and what was traded.
//!
//! | fits in | size | used by |
//! | --- | --- | --- |
//! | registers | `BLOCK_ROWS`, `block_vectors` in `simd::gemm` | products: a sum for each row and vector |
//! | L1, L2 | [`PRODUCT_DEPTH`], [`PRODUCT_PANEL`] | large products: 16 KiB of a panel on AVX2, all 64 on AVX-512 |
//! | L2 | [`PRODUCT_STEPS`], [`PRODUCT_TASK_ROWS`] | large products: a task's rows are at most 192 KiB of `f32` |
//! | L2 | [`OWN_PANELS`] | large products with few rows: 512 KiB of `f32` |
//! | L3 | [`OWN_PANEL_LEFT`], [`TRANSPOSED_TILES`] | large products: the copy of a left operand |
//! | L3 | [`PRODUCT_COLUMNS`] | large products: a packed block is at most 2 MiB of `f32` |
//! | the cores | [`PRODUCT_ROWS`], [`PRODUCT_TASKS`] | tasks of large products |
//! | the cores | [`OWN_PANEL_ROWS`] | large products: whether panels are packed for all tasks |
//! | the cores | [`RECURRENT_ROWS`] | tasks of a recurrent layer |
//! | the cores | [`SCATTER_TASKS`] | tasks of rows that are added to a table |
//! | L3, memory | [`CROSS_ENTROPY_LOGITS`], [`CROSS_ENTROPY_ROWS`] | rows at a time in a cross-entropy |
//! | L2 | [`CROSS_ENTROPY_JOINED`] | rows at a time in a cross-entropy of parts |
//! | rounding | [`SUMMED_ROWS`] | sums of columns |
//! | rounding, the cores | [`NORMALIZED_ROWS`] | sums over normalized rows |
//! | L1 | [`SUMMED_COLUMNS`] | sums of columns |
//! | packing | [`PACKED_ROWS`] | products: packing does not pay |
//! | memory's latency | [`PACKED_AHEAD`], `PREFETCHED_STEPS` in `simd::gemm` | packing, results of products |
//! | the cost of a task | [`TRANSPOSED_ROWS`], [`JOINED_ROWS`] | small tasks |
//!
//! No size depends on a machine's caches; only [`RECURRENT_ROWS`] and, up to [`OWN_PANELS`], the panels of a task that
//! packs them itself depend on its cores, but results do not depend on these.

/// The number of columns in a panel of a large product: the widest register block of any instruction set.
pub(crate) const PRODUCT_PANEL: usize = 64;

/// The number of rows from which the right operand of a product is packed: with fewer, reading it once is all the work.
pub(crate) const PACKED_ROWS: usize = 12;

/// The number of steps of a large product taken at a time. More would push a register block's part of a panel out of L1
/// (AVX2), or the panel out of L2, and add to the rounding of a sum; fewer would load and store the sums more often.
pub(crate) const PRODUCT_DEPTH: usize = 256;

/// How many rows ahead of the packed one are prefetched: rows are far apart, and processors do not prefetch the next
/// one themselves. Copying eight rows of a panel takes about as long as memory takes to answer.
pub(crate) const PACKED_AHEAD: usize = 8;

/// The size in bytes of a cache line, and of the longest vector: one that begins with a line lies within it.
pub(crate) const CACHE_LINE: usize = 64;

/// The steps in a block of a large product's right operand, packed once for all rows of a task or of the product.
pub(crate) const PRODUCT_STEPS: usize = 512;

/// The rows in a task that copies or transposes the left operand of a large product: twice the longest vector.
pub(crate) const TRANSPOSED_ROWS: usize = 32;

/// The number of tiles of a task's rows for which the left operand of a large product (a transpose, or several) is
/// copied at a time: some 3 MiB of `f32`. Further tiles are multiplied after these, so that no more tasks run at once.
pub(crate) const TRANSPOSED_TILES: usize = 16;

/// The largest number of rows of a large product whose tasks each pack their own columns of the right operand: with so
/// few rows, waiting for all of it to be packed would take about as long as computing.
pub(crate) const OWN_PANEL_ROWS: usize = 1024;

/// The most panels of a task that packs its own: 512 KiB of `f32`, in L2. Several panels are packed row by row, so that
/// memory is read in order, and [`PRODUCT_TASK_ROWS`] rows of the left operand are read for all of them while in L2.
pub(crate) const OWN_PANELS: usize = 4;

/// The number of elements of the left operand (a transpose, or several) copied at a time for such tasks: some 2 MiB of
/// `f32`.
pub(crate) const OWN_PANEL_LEFT: usize = 1 << 19;

/// The number of columns in a block of a large product's right operand.
pub(crate) const PRODUCT_COLUMNS: usize = 1024;

/// The rows in a task of a large product are a multiple of this: whole register blocks.
pub(crate) const PRODUCT_ROWS: usize = 6;

/// The largest number of rows in a task of a large product, or multiplied at a time in one that packs its own panels:
/// with [`PRODUCT_STEPS`] steps they stay in L2 while panels pass by.
pub(crate) const PRODUCT_TASK_ROWS: usize = 96;

/// About the smallest number of tasks of a whole block of a large product, if it has that many panels.
pub(crate) const PRODUCT_TASKS: usize = 16;

/// The number of rows that are summed separately in sums of columns.
pub(crate) const SUMMED_ROWS: usize = 64;

/// The largest number of columns in a task of such sums: 8 KiB of `f32`, which stay in L1 while rows pass by, and are
/// long enough for a processor to prefetch by itself.
pub(crate) const SUMMED_COLUMNS: usize = 2048;

/// The smallest and the largest number of rows in a task that sums the gradients of a normalization's parameters. Its
/// sums take as much memory as one or two of the many rows that it reads.
pub(crate) const NORMALIZED_ROWS: [usize; 2] = [16, 64];

/// The number of logits at a time in a cross-entropy: 8 MiB of `f32`, which products around them read from L3.
pub(crate) const CROSS_ENTROPY_LOGITS: usize = 1 << 21;

/// The fewest rows at a time in a cross-entropy: each time reads the packed weight and adds to its gradient.
pub(crate) const CROSS_ENTROPY_ROWS: usize = 192;

/// The number of features that are concatenated at a time in a cross-entropy of parts, which stay in L2.
pub(crate) const CROSS_ENTROPY_JOINED: usize = 1 << 18;

/// The number of rows in a task that concatenates features.
pub(crate) const JOINED_ROWS: usize = 64;

/// The number of tasks that add rows to a table: each reads all indices.
pub(crate) const SCATTER_TASKS: usize = 16;

/// The smallest and the largest number of examples in a task of a recurrent layer. More examples read the packed
/// weights less often, fewer leave more tasks: within these bounds, threads share them evenly.
pub(crate) const RECURRENT_ROWS: [usize; 2] = [8, 64];
