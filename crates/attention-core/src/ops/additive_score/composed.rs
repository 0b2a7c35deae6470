//! The composed definition.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::wide::define_in_wide;

use super::AdditiveScoreInputs;
use crate::ops::attention_ops::AttentionBackend;
use crate::ops::key_heads::repeated;
use crate::ops::largest_tensor::assert_fits;
use crate::ops::masked::Masked;

/// `weight . tanh(queries + keys)`, the hidden axis last, summed by a product with `weight`; of half precision in f32.
pub(in crate::ops) fn forward<B: AttentionBackend>(
    inputs: AdditiveScoreInputs<B>,
) -> FloatTensor<B> {
    define_in_wide(inputs, scores)
}

fn scores<B: AttentionBackend>(inputs: AdditiveScoreInputs<B>) -> FloatTensor<B> {
    let (queries, keys, weight) = (inputs.queries, inputs.keys, inputs.weight);
    let [hiddens] = weight.shape().dims();
    assert_fits::<B>("additive_score", &queries, &keys, hiddens);
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let masked = Masked::<B>::new(inputs.mask, num_keys, &queries);

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
