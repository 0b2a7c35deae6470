//! What a score must do to run in the streaming kernels.

use std::ops::Range;

use crate::Real;
use crate::simd::Simd;

/// The most keys in a tile. A tile of [`BLOCK`] rows is 24 KiB of `f32`: two of them (backward) stay in L2 beside the
/// packed operands, and the part that a product reads at a time stays in L1.
pub(crate) const TILE: usize = 128;

/// Numbers from one row of a tile to the next: no power of two, which would put a column into few sets of the cache.
pub(crate) const STRIDE: usize = TILE + 16;

/// Tiles start at multiples of it: the widest panel of any instruction set.
pub(crate) const PANEL: usize = 64;

/// The most queries in a block: a multiple of the rows of every product's register block.
pub(crate) const BLOCK: usize = 48;

/// Which head of which example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The example.
    pub batch: usize,
    /// The head of the queries.
    pub head: usize,
    /// The head of the keys and values; `head * key heads / query heads`.
    pub key_head: usize,
}

/// What is packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Only [`TileScore::scores`] will be asked for.
    Forward,
    /// [`TileScore::backward`] too: the sums of gradients start at zero.
    Backward,
}

/// The sizes of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Examples.
    pub batch: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys and values; they divide `heads`.
    pub key_heads: usize,
    /// Queries.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
    /// Numbers in a row of the queries' gradient.
    pub query_size: usize,
    /// Numbers in a row of the keys' gradient.
    pub key_size: usize,
    /// Numbers in the gradient of what all pairs share (a weight vector); 0 if there is nothing.
    pub shared: usize,
}

/// A score of queries and keys, computed tile by tile: at most [`BLOCK`] queries by at most [`TILE`] keys.
///
/// **Life of a score.** Forward, for each place: [`pack_keys`](Self::pack_keys) once, for the range of keys that any
/// query sees; then, in parallel, for each block of queries [`pack_queries`](Self::pack_queries) and
/// [`scores`](Self::scores) of one tile after the other. Backward, a task is a key head and a chunk of its keys:
/// `pack_keys` once (with the first query head's place); for each query head of the group and each block of queries
/// `pack_queries`, then `scores` and [`backward`](Self::backward) of each tile, then
/// [`add_query_gradient`](Self::add_query_gradient); at the end
/// [`add_key_gradient`](Self::add_key_gradient). `Keys` and `Queries` are used again without being cleared: packing
/// must overwrite what they held, and should keep their allocations.
///
/// **Units.** What `scores` writes times [`unit`](Self::unit) is a base-2 logit, that is, the score times `log2 e`. The
/// gradients that `backward` receives are those of the score itself, without any factor.
///
/// **Hidden pairs.** The score of a hidden pair is computed and thrown away, whatever it is; its gradient is exactly
/// 0. A row of queries or keys that is not finite must not turn that 0 into NaN in a row which does not see it:
/// `backward` computes with 0 (or anything finite) in place of a number that is not. Nothing is lost by that: a
/// visible pair of such a row has the score NaN or infinity, hence a gradient that is NaN itself (or 0, at -infinity,
/// which counts as hidden).
///
/// Every method that takes `simd` is `#[inline(always)]`, and so is what it calls in inner loops.
pub(crate) trait TileScore<E: Real>: Sync {
    /// Packed keys and, backward, the sums of their gradients and of the shared one.
    type Keys: Default + Send + Sync;
    /// A block of packed queries and, backward, the sums of their gradients.
    type Queries: Default + Send;

    /// All sizes.
    fn sizes(&self) -> Sizes;

    /// What the numbers that `scores` writes are multiplied with to be base-2 logits; positive and finite.
    fn unit(&self) -> E {
        E::ONE
    }

    /// Packs a range of keys of one place. `keys.start` is a multiple of [`TILE`].
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        place: Place,
        keys: Range<usize>,
        pass: Pass,
        packed: &mut Self::Keys,
    );

    /// Packs a block of queries, at most [`BLOCK`] and at least one.
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        place: Place,
        queries: Range<usize>,
        pass: Pass,
        packed: &mut Self::Queries,
    );

    /// Writes the logit of packed query `i` and key `tile.start + j` to `out[i * stride + j]`.
    ///
    /// `tile` is not empty, lies in the packed range, has at most [`TILE`] keys and starts at a multiple of [`PANEL`].
    /// `stride` is at least [`TILE`], and a multiple of the lanes; columns from `tile.len()` up to `stride` may be
    /// written with anything.
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Self::Queries,
        keys: &Self::Keys,
        tile: Range<usize>,
        out: &mut [E],
        stride: usize,
    );

    /// Adds what the gradients of the scores, laid out as `scores` wrote them, give the queries (summed in `queries`)
    /// and the keys and shared numbers (summed in `keys`). Columns from `tile.len()` up to the next multiple of the
    /// lanes are 0. The last call of `scores` was for the same block and tile.
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Self::Queries,
        keys: &mut Self::Keys,
        tile: Range<usize>,
        gradient: &[E],
        stride: usize,
    );

    /// Adds the sums of the block to `gradient`, `[queries of the block, query_size]`.
    fn add_query_gradient<S: Simd<E>>(
        &self,
        simd: S,
        queries: &mut Self::Queries,
        gradient: &mut [E],
    );

    /// Adds the sums of the packed keys to `gradient`, `[keys of the range, key_size]`, and those of the shared
    /// numbers to `shared`, `[shared]`, which belongs to this task alone; the driver adds up those of all tasks in a
    /// fixed order.
    fn add_key_gradient<S: Simd<E>>(
        &self,
        simd: S,
        keys: &mut Self::Keys,
        gradient: &mut [E],
        shared: &mut [E],
    );
}
