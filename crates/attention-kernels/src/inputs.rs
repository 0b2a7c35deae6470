//! Inputs of fused attention.

use crate::{Dropout, Mask, PairwiseKernel, Rows, ScoreModifiers};

/// Attention: `softmax(scores) values` over the keys that each query attends to, with the scores modified.
///
/// Heads may share key heads: head `h` attends to the key head `h * key_heads / heads` (Ainslie et al. 2023, "GQA").
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
    /// The values, which the weights multiply.
    pub values: Rows<'a, E>,
    /// The formula of the scores.
    pub score: Score<'a, E>,
    /// Modifications of the scores.
    pub modifiers: ScoreModifiers<'a, E>,
    /// Which keys each query attends to.
    pub mask: Mask<'a>,
    /// Dropout of the weights.
    pub dropout: Option<Dropout>,
}

/// The formula of the score of a query and a key.
#[derive(Clone, Copy, Debug)]
pub enum Score<'a, E> {
    /// `scale sum_h q_h k_h`: Vaswani et al. 2017, "Attention Is All You Need". PyTorch equivalent:
    /// `F.scaled_dot_product_attention`.
    DotProduct {
        /// Usually `1 / sqrt(size)`.
        scale: E,
    },
    /// `sum_h w_h tanh(q_h + k_h)`, as in [`AdditiveScoreInputs`](crate::AdditiveScoreInputs): Bahdanau et al. 2015,
    /// "Neural Machine Translation by Jointly Learning to Align and Translate".
    Additive {
        /// `[size]`
        weight: &'a [E],
        /// The keys from [`AdditiveScoreInputs::packed_keys`](crate::AdditiveScoreInputs::packed_keys), if they are
        /// already packed.
        packed_keys: Option<&'a [E]>,
    },
    /// `sum_h w_h f(q_h, k_h)` with a term of your own.
    Pairwise {
        /// The kernels of the term.
        kernel: &'a dyn PairwiseKernel,
        /// `[size]`; `None` for ones.
        weight: Option<&'a [E]>,
    },
}
