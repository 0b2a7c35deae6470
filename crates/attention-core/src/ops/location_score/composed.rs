//! The definition: a convolution of the alignments, added to the keys of an additive score.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::ops::ConvOptions;
use burn_fused_layers::harness::wide::define_in_wide;

use super::LocationScoreInputs;
use crate::ops::additive_score::AdditiveScoreInputs;
use crate::ops::attention_ops::AttentionOps;

/// The score of `keys + filters * alignments`; of half precision in f32.
pub(in crate::ops) fn forward<B: AttentionOps>(inputs: LocationScoreInputs<B>) -> FloatTensor<B> {
    define_in_wide(inputs, scores)
}

fn scores<B: AttentionOps>(inputs: LocationScoreInputs<B>) -> FloatTensor<B> {
    let (keys, alignments, filters) = (inputs.keys, inputs.alignments, inputs.filters);
    let [batch, _, channels, num_keys] = alignments.shape().dims();
    let [_, _, width, num_hiddens] = filters.shape().dims();
    let alignments = B::float_reshape(alignments, [batch, channels, num_keys].into());
    let alignments = B::float_cast(alignments, keys.dtype().into());
    let filters = B::float_reshape(filters, [channels, width, num_hiddens].into());
    let filters = B::float_permute(filters, &[2, 0, 1]);
    let same = ConvOptions::new([1], [width / 2], [1], 1);
    let locations = B::float_swap_dims(B::conv1d(alignments, filters, None, same), 1, 2);
    let locations = B::float_reshape(locations, [batch, 1, num_keys, num_hiddens].into());
    B::additive_score(AdditiveScoreInputs {
        queries: inputs.queries,
        keys: B::float_add(keys, locations),
        weight: inputs.weight,
        mask: inputs.mask,
    })
}
