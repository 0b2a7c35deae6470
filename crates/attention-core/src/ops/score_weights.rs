//! From scores to weights, for the definitions of attention.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::wide::cast;

use super::attention_ops::AttentionOps;
use super::mask::ResolvedMask;
use super::masked_softmax::{self, MaskedSoftmaxInputs};
use super::score_modifiers::ScoreModifiers;

/// The weights of scores `[batch, heads, queries, keys]`, which are modified first; in the type of the scores.
pub(super) fn weights<B: AttentionOps>(
    scores: FloatTensor<B>,
    modifiers: &ScoreModifiers<B>,
    mask: ResolvedMask<B>,
) -> FloatTensor<B> {
    let dtype = scores.dtype();
    let weights = softmax_with_sinks::<B>(modifiers.modify(scores), modifiers, mask);
    cast::<B>(weights, dtype)
}

/// Softmax over the keys that the mask keeps and over the sinks, if there are any.
pub(crate) fn softmax_with_sinks<B: AttentionOps>(
    scores: FloatTensor<B>,
    modifiers: &ScoreModifiers<B>,
    mask: ResolvedMask<B>,
) -> FloatTensor<B> {
    let inputs = MaskedSoftmaxInputs { scores, mask };
    match modifiers.sinks.as_option() {
        Some(sinks) => masked_softmax::composed::with_sinks(inputs, Some(sinks.clone())),
        None => B::masked_softmax(inputs),
    }
}
