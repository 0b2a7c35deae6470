//! Inputs of fused attention.

use crate::{Dropout, Mask, PairwiseKernel, Rows, ScoreModifiers};

/// Attention: `softmax(scores) values` over the keys that each query attends to, with the scores modified.
///
/// Fewer key heads than heads are grouped: head `h` attends to the key head `h * key_heads / heads` (Ainslie et al.
/// 2023, "GQA").
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`
/// - keys `[batch, key_heads, keys, size]`
/// - values `[batch, key_heads, keys, value_size]`
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a, E> {
    /// The queries.
    pub queries: Rows<'a, E>,
    /// The keys.
    pub keys: Rows<'a, E>,
    /// The values, which the weights are applied to.
    pub values: Rows<'a, E>,
    /// The formula of the scores.
    pub score: Score<'a, E>,
    /// Changes to the scores.
    pub modifiers: ScoreModifiers<'a, E>,
    /// Which keys each query attends to.
    pub mask: Mask<'a>,
    /// Dropout of the weights.
    pub dropout: Option<Dropout>,
}

/// The formula of the score of a query and a key.
#[derive(Clone, Copy, Debug)]
pub enum Score<'a, E> {
    /// `scale sum_h q_h k_h`: Vaswani et al. 2017, "Attention Is All You Need". PyTorch:
    /// `F.scaled_dot_product_attention`.
    DotProduct {
        /// Usually `1 / sqrt(size)`.
        scale: E,
    },
    /// `sum_h w_h tanh(q_h + k_h)`, as of [`AdditiveScoreInputs`](crate::AdditiveScoreInputs): Bahdanau et al. 2015,
    /// "Neural Machine Translation by Jointly Learning to Align and Translate".
    Additive {
        /// `[size]`
        weight: &'a [E],
        /// The keys as [`AdditiveScoreInputs::packed_keys`](crate::AdditiveScoreInputs::packed_keys) returned them, if
        /// they were packed before.
        packed_keys: Option<&'a [E]>,
    },
    /// `sum_h w_h f(q_h, k_h)` of a term of one's own.
    Pairwise {
        /// The kernels of the term.
        kernel: &'a dyn PairwiseKernel,
        /// `[size]`; ones if there is none.
        weight: Option<&'a [E]>,
    },
}
