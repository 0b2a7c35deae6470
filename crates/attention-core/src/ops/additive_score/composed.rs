//! The definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::AdditiveScoreInputs;
use crate::ops::attention_backend::AttentionBackend;
use crate::ops::chunked::{Chunk, Chunks, in_chunks};
use crate::ops::key_heads::repeated;
use crate::ops::masked::Masked;

impl<B: Backend> Chunks<B> for AdditiveScoreInputs<B> {
    fn queries(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn keys(&self) -> &FloatTensor<B> {
        &self.keys
    }

    fn elements_of_pair(&self) -> usize {
        self.weight.shape()[0]
    }

    fn chunk(&self, at: &Chunk) -> Self {
        Self {
            queries: at.of_queries::<B>(&self.queries),
            keys: at.of_keys::<B>(&self.keys),
            weight: self.weight.clone(),
            mask: at.of_mask(&self.mask, self.keys.shape()[2], &self.queries),
        }
    }
}

/// In chunks, if need be.
pub(in crate::ops) fn forward<B: AttentionBackend>(
    inputs: AdditiveScoreInputs<B>,
) -> FloatTensor<B> {
    in_chunks(inputs, definition)
}

/// `weight . tanh(queries + keys)`, the hidden axis last, summed by a product with `weight`.
fn definition<B: Backend>(inputs: AdditiveScoreInputs<B>) -> FloatTensor<B> {
    let AdditiveScoreInputs {
        queries,
        keys,
        weight,
        mask,
    } = inputs;
    let [batch, heads, num_queries, hiddens] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let masked = Masked::<B>::new(mask, num_keys, &queries);

    let keys = masked.fill_padding(repeated::<B>(keys, heads));
    let queries = B::float_reshape(queries, [batch, heads, num_queries, 1, hiddens].into());
    let keys = B::float_reshape(keys, [batch, heads, 1, num_keys, hiddens].into());
    let sum = masked.fill_pairs(B::float_add(queries, keys));
    let features = B::float_tanh(sum);

    let pairs = batch * heads * num_queries * num_keys;
    let features = B::float_reshape(features, [pairs, hiddens].into());
    let weight = B::float_reshape(weight, [hiddens, 1].into());
    let scores = B::float_matmul(features, weight);
    let scores = B::float_reshape(scores, [batch, heads, num_queries, num_keys].into());
    masked.fill(scores, 0.0)
}
