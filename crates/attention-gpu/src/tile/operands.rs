//! Arguments that all kernels over pairs of queries and keys share.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::host::dropout::WeightDropout;
use crate::host::mask::Mask;
use crate::host::modifiers::Modifiers;
use crate::tile::tiling::Tiling;

/// Tensors and options of a call, as the kernels read them; all tensors are contiguous.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Operands<F: Float> {
    /// `[batch, heads, queries, size]`
    pub(crate) queries: Box<[F]>,
    /// `[batch, key_heads, keys, size]`
    pub(crate) keys: Box<[F]>,
    /// `[batch, key_heads, keys, value_size]`
    pub(crate) values: Box<[F]>,
    /// The weight of additive scores, `[size]`.
    pub(crate) weight: ComptimeOption<OwnedTensor<f32>>,
    pub(crate) modifiers: Modifiers,
    pub(crate) mask: Mask,
    pub(crate) dropout: WeightDropout,
    pub(crate) sizes: Sizes,
    #[cube(comptime)]
    pub(crate) kind: ScoreKind,
    #[cube(comptime)]
    pub(crate) tiling: Tiling,
}

/// The sizes of a call.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// The number of elements of a query or key.
    pub(crate) size: usize,
    pub(crate) value_size: usize,
    /// The factor on the sums over a query and a key.
    pub(crate) scale: f32,
}

/// The formula of a score, before its scale and modifiers.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum ScoreKind {
    /// `sum_h q_h k_h`
    Dot,
    /// `sum_h w_h tanh(q_h + k_h)`
    Additive,
}
