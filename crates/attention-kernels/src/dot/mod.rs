//! Scaled dot products: `score[i, j] = scale * (q[i] . k[j]) + bias[j]`.

mod decode;
mod stream;

use crate::deferred::KeyValueGradients;
use crate::stream::{Attention, AttentionOutputs, Gradients, LogSumExp, is_decode};
use crate::tiles::DOT_PRODUCT_DECODE_QUERIES;
use crate::{Dropout, Level, Mask, Real, Rows};
pub(crate) use stream::DotProductScore;

/// Attention with scaled dot products: `softmax(scale * Q K^T + bias) V` over the keys that each query attends to.
///
/// Fewer key heads than heads are grouped: head `h` attends to the key head `h * key_heads / heads`.
///
/// Vaswani et al. 2017, "Attention Is All You Need"; grouped heads: Ainslie et al. 2023, "GQA". PyTorch:
/// `F.scaled_dot_product_attention`.
///
/// # Shapes
/// - queries `[batch, heads, queries, key_size]`
/// - keys `[batch, key_heads, keys, key_size]`
/// - values `[batch, key_heads, keys, value_size]`
/// - bias `[batch, heads or 1, 1, keys]`
#[derive(Clone, Copy, Debug)]
pub struct DotProductAttentionInputs<'a, E> {
    /// The queries.
    pub queries: Rows<'a, E>,
    /// The keys.
    pub keys: Rows<'a, E>,
    /// The values, which the weights are applied to.
    pub values: Rows<'a, E>,
    /// Added to the scores of each key; minus infinity masks the key.
    pub bias: Option<Rows<'a, E>>,
    /// Which keys each query attends to.
    pub mask: Mask<'a>,
    /// Usually `1 / sqrt(key_size)`.
    pub scale: E,
    /// Of the weights.
    pub dropout: Option<Dropout>,
}

/// Where [`DotProductAttentionInputs::backward`] adds gradients; contiguous.
#[derive(Debug)]
pub struct DotProductAttentionGradients<'a, E> {
    /// `[batch, heads, queries, key_size]`
    pub queries: &'a mut [E],
    /// `[batch, key_heads, keys, key_size]`
    pub keys: &'a mut [E],
    /// `[batch, key_heads, keys, value_size]`
    pub values: &'a mut [E],
    /// `[batch, heads or 1, keys]`, as the bias.
    pub bias: Option<&'a mut [E]>,
}

/// Where [`DotProductAttentionInputs::backward_deferred`] puts gradients; contiguous.
#[derive(Debug)]
pub struct DotProductDeferredGradients<'a, E> {
    /// Added to, `[batch, heads, queries, key_size]`.
    pub queries: &'a mut [E],
    /// The gradients of the scores, written where a query attends to a key, `[batch, heads, queries, keys]`.
    pub scores: &'a mut [E],
    /// The weights after dropout, written where a query attends to a key, `[batch, heads, queries, keys]`.
    pub weights: &'a mut [E],
    /// Added to, `[batch, heads or 1, keys]`, as the bias.
    pub bias: Option<&'a mut [E]>,
}

impl<E: Real> DotProductAttentionInputs<'_, E> {
    /// The most queries of [decoding](Self::is_decode).
    pub const DECODE_QUERIES: usize = DOT_PRODUCT_DECODE_QUERIES;

    /// Whether there are so few queries, as in a step of a decoder, that packing keys and values for them is not worth
    /// it, and no size is 0.
    pub fn is_decode(&self) -> bool {
        is_decode(Self::DECODE_QUERIES, [self.queries, self.keys, self.values])
    }

    /// Writes the context and the logarithm of the sum of `e^score` of each query, which the backward pass needs.
    ///
    /// A query that attends to no key, or only to scores of minus infinity, has context 0. The number of threads
    /// changes no bit.
    ///
    /// # Shapes
    /// - context `[batch, heads, queries, value_size]`
    /// - lse `[batch, heads, queries]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, context: &mut [E], lse: &mut [LogSumExp]) {
        let score = DotProductScore::new(self);
        E::dot_product_forward(level, &self.attention(&score), context, lse);
    }

    /// The logarithm of the sum of `e^score` of a query, of which [`forward`](Self::forward) wrote the terms.
    pub fn log_sum_exp(&self, terms: LogSumExp) -> f64 {
        let score = DotProductScore::new(self);
        self.attention(&score).log_sum_exp(terms)
    }

    /// Adds the gradients to `gradients`; `outputs` has what [`forward`](Self::forward) wrote for the same inputs.
    ///
    /// The weights are computed again, from the scores and the log-sum-exp.
    /// Where a query attends to no key all gradients are 0, whatever that of the context holds. The number of threads
    /// changes no bit.
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(
        &self,
        level: Level,
        outputs: &AttentionOutputs<E>,
        gradients: DotProductAttentionGradients<E>,
    ) {
        let DotProductAttentionGradients { keys, values, .. } = gradients;
        let gradients = Gradients {
            queries: gradients.queries,
            keys_and_values: KeyValueGradients::Added { keys, values },
            bias: gradients.bias,
            shared: &mut [],
        };
        let score = DotProductScore::new(self);
        E::dot_product_backward(level, &self.attention(&score), outputs, gradients);
    }

    /// As [`backward`](Self::backward), for one step of [decoding](Self::is_decode) of many through the same keys and
    /// values: what their gradients are made of is written instead of added, so that all steps can be added at once,
    /// with their queries side by side: [`accumulate_deferred`](crate::accumulate_deferred) of `scores` and queries,
    /// with the scale as factor, for the keys, and of `weights` and the gradients of the contexts for the values.
    ///
    /// # Panics
    /// If this is not [decoding](Self::is_decode) or the shapes do not fit together.
    pub fn backward_deferred(
        &self,
        level: Level,
        outputs: &AttentionOutputs<E>,
        gradients: DotProductDeferredGradients<E>,
    ) {
        let DotProductDeferredGradients {
            scores, weights, ..
        } = gradients;
        let gradients = Gradients {
            queries: gradients.queries,
            keys_and_values: KeyValueGradients::Deferred { scores, weights },
            bias: gradients.bias,
            shared: &mut [],
        };
        let score = DotProductScore::new(self);
        E::dot_product_backward(level, &self.attention(&score), outputs, gradients);
    }

    fn attention<'b>(
        &'b self,
        score: &'b DotProductScore<'b, E>,
    ) -> Attention<'b, E, DotProductScore<'b, E>> {
        Attention {
            score,
            values: self.values,
            bias: self.bias,
            mask: &self.mask,
            dropout: self.dropout,
            is_decode: self.is_decode(),
        }
    }
}
