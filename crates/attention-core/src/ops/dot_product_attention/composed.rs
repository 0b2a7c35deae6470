//! The definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::DotProductAttentionInputs;
use crate::ops::attention_ops::AttentionOps;
use crate::ops::chunked::{Chunk, Chunks, in_chunks};
use crate::ops::dot_product_score::DotProductScoreInputs;
use crate::ops::dropout;
use crate::ops::score_weights::weights;
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
            modifiers: self
                .modifiers
                .chunk(at, [self.queries.shape()[2], self.keys.shape()[2]]),
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

/// Score, softmax, dropout, weighted sum.
fn definition<B: AttentionOps>(inputs: DotProductAttentionInputs<B>) -> FloatTensor<B> {
    let mask = inputs.mask;
    let scores = B::dot_product_score(DotProductScoreInputs {
        queries: inputs.queries,
        keys: inputs.keys,
        mask: mask.clone(),
        scale: inputs.scale,
    });
    let weights = weights::<B>(scores, &inputs.modifiers, mask.clone());
    B::weighted_sum(WeightedSumInputs {
        weights: dropout::composed::<B>(weights, inputs.dropout),
        values: inputs.values,
        mask,
    })
}
