//! The interface of a score that runs in the streaming kernels.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::{Level, Simd};

use super::attention::{Attention, AttentionGradients, AttentionOutputs, LogSumExp};
use crate::HeadIndex;
use crate::heads::Heads;

/// The pass that keys and queries are packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Only [`TileScore::scores`] will be asked for.
    Forward,
    /// [`TileScore::backward`] too: the sums of the gradients that are wanted start at zero.
    Backward(Wanted),
}

/// The gradients that a backward pass is asked for. What only the others need is left out, and those that are made have
/// the same bits whichever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub queries: bool,
    pub keys: bool,
    pub values: bool,
    pub bias: bool,
    pub relative_bias: bool,
    pub shared: bool,
}

impl Wanted {
    /// Whether any but the values' gradient is wanted: those are made from the gradients of the scores.
    #[inline(always)]
    pub(crate) fn through_scores(self) -> bool {
        self.queries || self.keys || self.bias || self.relative_bias || self.shared
    }
}

/// The sizes of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub heads: Heads,
    /// Queries.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub size: usize,
    /// Elements in the gradient of what all pairs share (the weight of the additive score); 0 if there is nothing.
    pub shared: usize,
}

impl Sizes {
    /// `[batch, heads, queries, keys]`
    pub(crate) fn pairs(&self) -> [usize; 4] {
        let Heads { batch, heads, .. } = self.heads;
        [batch, heads, self.queries, self.keys]
    }
}

/// A score of queries and keys, computed tile by tile: at most `QUERY_BLOCK` queries by at most `KEY_TILE` keys; see
/// [`tiles`](crate::tiles).
///
/// **Life of a score.** Forward, for each key head: [`pack_keys`](Self::pack_keys) once, for the range of keys that any
/// query attends to; then, in parallel, for each block of queries of its heads [`pack_queries`](Self::pack_queries) and
/// [`scores`](Self::scores) of one tile after the other. Backward, a task is a key head and a chunk of its keys:
/// `pack_keys` once; for each head of the group and each block of its queries `pack_queries`, then `scores` and
/// [`backward`](Self::backward) of each tile, then [`add_query_gradient`](Self::add_query_gradient); at the end
/// [`add_key_gradient`](Self::add_key_gradient) and [`add_shared_gradient`](Self::add_shared_gradient), each if it is
/// wanted. `Keys` and `Queries` are used again without being cleared: packing must overwrite what they held, and should
/// keep their allocations.
///
/// **Units.** What `scores` writes times [`unit`](Self::unit) is a base-2 logit, that is, the score times `log2 e`.
/// `backward` receives the gradients of the score itself, without any factor.
///
/// **Masked pairs.** The score of a masked pair is computed and thrown away, whatever it is; its gradient is exactly 0.
/// A query or key that is not finite must not turn that 0 into NaN in a row that does not attend to it: `backward`
/// computes with 0 (or anything finite) in place of an element that is not. Nothing is lost by that: a pair of such a
/// row that is not masked has the score NaN or infinity, hence a gradient that is NaN itself (or 0, at -infinity, which
/// counts as masked).
///
/// Every method that takes `simd` is `#[inline(always)]`, and so is what it calls in inner loops.
pub(crate) trait TileScore<E: Real>: Sync + Sized {
    /// The name of the attention with this score in messages.
    const OPERATION: &'static str;

    /// Packed keys and, backward, the sums of their gradients and of the shared one.
    type Keys: Default + Send + Sync;
    /// A block of packed queries and, backward, the sums of their gradients.
    type Queries: Default + Send;

    /// All sizes.
    fn sizes(&self) -> Sizes;

    /// The factor that makes base-2 logits of the scores that `scores` writes; positive and finite.
    fn unit(&self) -> E {
        E::ONE
    }

    /// Packs a range of keys of one key head. `keys.start` is a multiple of `KEY_TILE`.
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        keys: Range<usize>,
        phase: Phase,
        packed: &mut Self::Keys,
    );

    /// Packs a block of queries of one head, at most `QUERY_BLOCK` and at least one.
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        queries: Range<usize>,
        phase: Phase,
        packed: &mut Self::Queries,
    );

    /// Writes the score of packed query `i` and key `tile.start + j` to `out[i * KEY_STRIDE + j]`.
    ///
    /// `tile` is not empty, lies in the packed range, has at most `KEY_TILE` keys and starts at a multiple of
    /// `KEY_PANEL`. Columns from `tile.len()` up to `KEY_STRIDE` may be written with anything.
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &Self::Queries,
        keys: &Self::Keys,
        tile: Range<usize>,
        out: &mut [E],
    );

    /// Adds what the gradients of the scores, laid out as `scores` wrote them, give the queries (summed in `queries`)
    /// and the keys and what is shared (summed in `keys`), as far as they are wanted. Columns from `tile.len()` up to
    /// the next multiple of the lanes are 0. The last call of `scores` was for the same block and tile.
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        wanted: Wanted,
        queries: &mut Self::Queries,
        keys: &mut Self::Keys,
        tile: Range<usize>,
        gradient: &[E],
    );

    /// Adds the sums of the block to `gradient`, `[queries of the block, size]`.
    fn add_query_gradient<S: Simd<E>>(&self, simd: S, queries: &Self::Queries, gradient: &mut [E]);

    /// Adds the sums of the packed keys to `gradient`, `[keys of the range, size]`.
    fn add_key_gradient<S: Simd<E>>(&self, simd: S, keys: &Self::Keys, gradient: &mut [E]);

    /// Adds the sums of what is shared to `shared`, `[shared]`, which belongs to this task alone; the driver adds up
    /// all tasks' sums in a fixed order.
    fn add_shared_gradient(&self, keys: &Self::Keys, shared: &mut [E]);

    /// The forward pass of a decoding step; sizes are checked, none is 0.
    fn decode_forward(
        level: Level,
        attention: &Attention<E, Self>,
        context: &mut [E],
        lse: &mut [LogSumExp],
    );

    /// The backward pass of a decoding step; sizes are checked, none is 0.
    fn decode_backward(
        level: Level,
        attention: &Attention<E, Self>,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    );
}
