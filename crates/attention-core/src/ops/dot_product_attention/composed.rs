//! The definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::DotProductAttentionInputs;
use crate::ops::attention_ops::AttentionOps;
use crate::ops::chunked::{Chunk, Chunks, in_chunks};
use crate::ops::dot_product_score::DotProductScoreInputs;
use crate::ops::dropout;
use crate::ops::masked_softmax::MaskedSoftmaxInputs;
use crate::ops::weighted_sum::WeightedSumInputs;

impl<B: Backend> Chunks<B> for DotProductAttentionInputs<B> {
    fn queries(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn keys(&self) -> &FloatTensor<B> {
        &self.keys
    }

    /// Its score; hidden units are the matter of the score's own definition.
    fn elements_of_pair(&self) -> usize {
        1
    }

    fn chunk(&self, at: &Chunk) -> Self {
        Self {
            queries: at.of_queries::<B>(&self.queries),
            keys: at.of_keys::<B>(&self.keys),
            values: at.of_keys::<B>(&self.values),
            bias: at.of_bias::<B>(&self.bias),
            mask: at.of_mask(&self.mask, self.keys.shape()[2], &self.queries),
            shared: None,
            dropout: self.dropout,
            scale: self.scale,
        }
    }
}

/// In chunks, if need be.
pub(in crate::ops) fn forward<B: AttentionOps>(
    inputs: DotProductAttentionInputs<B>,
) -> FloatTensor<B> {
    in_chunks(inputs, definition)
}

/// Score and bias, softmax, dropout, weighted sum.
fn definition<B: AttentionOps>(inputs: DotProductAttentionInputs<B>) -> FloatTensor<B> {
    let mask = inputs.mask;
    let dtype = inputs.queries.dtype();
    let mut scores = B::dot_product_score(DotProductScoreInputs {
        queries: inputs.queries,
        keys: inputs.keys,
        mask: mask.clone(),
        scale: inputs.scale,
    });
    if let Some(bias) = inputs.bias.into_option() {
        // A bias may be more precise than the scores.
        if bias.dtype() != dtype {
            scores = B::float_cast(scores, bias.dtype().into());
        }
        scores = B::float_add(scores, bias);
    }
    let mut weights = B::masked_softmax(MaskedSoftmaxInputs {
        scores,
        mask: mask.clone(),
    });
    if weights.dtype() != dtype {
        weights = B::float_cast(weights, dtype.into());
    }
    B::weighted_sum(WeightedSumInputs {
        weights: dropout::composed::<B>(weights, inputs.dropout),
        values: inputs.values,
        mask,
    })
}
