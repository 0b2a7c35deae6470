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
    /// Only [`TileScore::scores`] will be called.
    Forward,
    /// [`TileScore::backward`] will be called as well: the sums of the requested gradients start at zero.
    Backward(Wanted),
}

/// The gradients requested from a backward pass. Work for other gradients alone is skipped, and the choice changes no
/// bit of the requested ones.
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
    /// Whether a gradient other than the values' is requested: it needs the gradients of the scores.
    #[inline(always)]
    pub(crate) fn through_scores(self) -> bool {
        self.queries || self.keys || self.bias || self.relative_bias || self.shared
    }
}

/// The sizes of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub heads: Heads,
    /// The number of queries.
    pub queries: usize,
    /// The number of keys.
    pub keys: usize,
    /// The number of elements of a query and of a key.
    pub size: usize,
    /// The number of parameters that all pairs share (the weight of the additive score); 0 if there are none.
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
/// [`add_key_gradient`](Self::add_key_gradient) and [`add_shared_gradient`](Self::add_shared_gradient), each if
/// requested. `Keys` and `Queries` are reused without being cleared: packing must overwrite their content, and should
/// keep their allocations.
///
/// **Units.** The output of `scores`, times [`unit`](Self::unit), is a base-2 logit, that is, the score times `log2 e`.
/// `backward` receives the gradients of the score itself, without any factor.
///
/// **Masked pairs.** The score of a masked pair is computed and thrown away, whatever it is; its gradient is exactly 0.
/// A non-finite query or key must not turn that 0 into NaN in a row that does not attend to it: `backward` computes
/// with 0 (or anything finite) in place of a non-finite element. That loses nothing: an unmasked pair with such a row
/// has the score NaN or infinity, hence a gradient that is NaN itself (or 0, at -infinity, which counts as masked).
///
/// Every method that takes `simd` is `#[inline(always)]`, like all it calls in inner loops.
pub(crate) trait TileScore<E: Real>: Sync + Sized {
    /// The name of the attention with this score in messages.
    const OPERATION: &'static str;

    /// Packed keys and, in the backward pass, the sums of their gradients and of the shared one.
    type Keys: Default + Send + Sync;
    /// A block of packed queries and, in the backward pass, the sums of their gradients.
    type Queries: Default + Send;

    /// All sizes.
    fn sizes(&self) -> Sizes;

    /// The factor that turns the output of `scores` into base-2 logits; positive and finite.
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

    /// Packs a block of queries of one head, between one and `QUERY_BLOCK`.
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
    /// `KEY_PANEL`. Columns from `tile.len()` up to `KEY_STRIDE` may be overwritten.
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &Self::Queries,
        keys: &Self::Keys,
        tile: Range<usize>,
        out: &mut [E],
    );

    /// Adds, as far as requested, the contributions of the gradients of the scores, laid out as by `scores`, to the
    /// gradients of queries (summed in `queries`), and of keys and shared parameters (summed in `keys`). Columns from
    /// `tile.len()` up to the next multiple of the lanes are 0. The last call of `scores` was for the same block and
    /// tile.
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

    /// Adds the sums of shared parameters to `shared`, `[shared]`, which belongs to this task alone; the caller adds
    /// the sums of all tasks in a fixed order.
    fn add_shared_gradient(&self, keys: &Self::Keys, shared: &mut [E]);

    /// The forward pass of a decoding step; sizes were checked, none is 0.
    fn decode_forward(
        level: Level,
        attention: &Attention<E, Self>,
        context: &mut [E],
        lse: &mut [LogSumExp],
    );

    /// The backward pass of a decoding step; sizes were checked, none is 0.
    fn decode_backward(
        level: Level,
        attention: &Attention<E, Self>,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    );
}
