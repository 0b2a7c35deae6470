//! Attention on queries, keys and values.

use std::sync::Arc;

use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use super::extra_keys::with_extra_keys;
use super::fused::{FusedScore, attend};
use super::modifiers::{Modifiers, modify, softmax_with_sinks};
use super::sizes::Sizes;
use super::{
    additive_score, dot_product_score, drop_weights, fill_masked, pairwise_score, weighted_sum,
};
use crate::functional::AttentionOptions;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::rank::{from_four_axes, of_one_batch, to_four_axes};
use crate::score::{PairwiseFormula, default_scale, widened};

/// Every step from scores to the context.
#[derive(Clone, Debug)]
pub struct AttentionSteps<const D: usize> {
    /// The scores themselves, masked pairs included, `[batch, queries, keys]` or `[batch, heads, queries, keys]`.
    pub scores: Tensor<D>,
    /// After the soft-cap.
    pub capped: Tensor<D>,
    /// After biases and mask: minus infinity where masked.
    pub masked: Tensor<D>,
    /// The weights before dropout; a row sums to 1, less what sinks take, or is 0 where a query attends to no key.
    pub weights: Tensor<D>,
    /// `[batch, queries, value_size]` or `[batch, heads, queries, value_size]`.
    pub context: Tensor<D>,
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]` and what `options` change of it. No score is stored where
/// the device has a kernel.
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`, except that a query without any key has the
/// context 0; its `is_causal` is [`Mask::causal_top_left`].
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`, keys `[batch, key_heads, keys, size]`, values `[batch, key_heads, keys,
///   value_size]`, where `key_heads` divides `heads`; or all three without heads. A batch of 1 serves all examples
/// - result `[batch, heads, queries, value_size]`, or without heads
///
/// # Panics
/// If shapes, types, devices or an option do not fit together.
///
/// ```
/// use attention_core::Mask;
/// use attention_core::functional::{AttentionOptions, dot_product_attention};
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let queries = Tensor::<4>::ones([2, 6, 5, 4], &device);
/// // Two heads of keys and values, each for three of queries.
/// let [keys, values] = [(); 2].map(|()| Tensor::<4>::ones([2, 2, 7, 4], &device));
/// let options = AttentionOptions {
///     mask: Mask::causal(),
///     bias: Some(Tensor::zeros([1, 6, 5, 7], &device)),
///     soft_cap: Some(50.0),
///     ..Default::default()
/// };
/// let context = dot_product_attention(queries, keys, values, &options);
/// assert_eq!(context.dims(), [2, 6, 5, 4]);
/// ```
#[doc(alias = "scaled_dot_product_attention")]
pub fn dot_product_attention<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
    options: impl Into<AttentionOptions>,
) -> Tensor<D> {
    const NAME: &str = "dot_product_attention";
    let options = &options.into();
    let (queries, memory, sizes, modifiers) = call(NAME, queries, keys, values, options);
    let [_, _, _, size] = queries.dims();
    let scale = options.scale.unwrap_or_else(|| default_scale(size));
    let dropout = options.dropout.unwrap_or(0.0);
    let score = FusedScore::DotProduct { scale };
    if !score.runs(&modifiers, &queries) {
        let [queries, keys] = [queries, memory.keys()].map(widened);
        let score = |mask: &Mask| dot_product_score(queries.clone(), keys.clone(), mask, scale);
        return steps(NAME, score, &memory, &modifiers, options).context;
    }
    from_four_axes(attend(queries, &memory, sizes, score, modifiers, dropout))
}

/// [`dot_product_attention`], with all that it does not store: scores and weights.
///
/// # Panics
/// As [`dot_product_attention`].
pub fn dot_product_attention_steps<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
    options: impl Into<AttentionOptions>,
) -> AttentionSteps<D> {
    const NAME: &str = "dot_product_attention";
    let options = &options.into();
    let (queries, memory, _, modifiers) = call(NAME, queries, keys, values, options);
    let [_, _, _, size] = queries.dims();
    let scale = options.scale.unwrap_or_else(|| default_scale(size));
    // Scores of half precision are f32, as in the fused kernel.
    let (queries, keys) = (widened(queries), widened(memory.keys()));
    let score = |mask: &Mask| dot_product_score(queries.clone(), keys.clone(), mask, scale);
    steps(NAME, score, &memory, &modifiers, options)
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])` and what `options` change of it. Queries
/// and keys are projected already; neither scores nor hidden units of a pair are stored where the device has a kernel.
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate". Keras equivalent:
/// `AdditiveAttention`, whose `scale` is the weight.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, values `[batch,
///   key_heads, keys, value_size]`, where `key_heads` divides `heads`; or all three without heads. One with a batch of
///   1 serves all examples
/// - weight `[num_hiddens]`
/// - result `[batch, heads, queries, value_size]`, or without heads
///
/// # Panics
/// If shapes, types, devices or an option do not fit together, or there is a `scale`.
pub fn additive_attention<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
    weight: Tensor<1>,
    options: impl Into<AttentionOptions>,
) -> Tensor<D> {
    const NAME: &str = "additive_attention";
    let options = &options.into();
    assert_no_scale(NAME, options);
    let (queries, memory, sizes, modifiers) = call(NAME, queries, keys, values, options);
    let dropout = options.dropout.unwrap_or(0.0);
    let score = FusedScore::Additive {
        weight: weight.clone(),
    };
    if !score.runs(&modifiers, &queries) {
        let keys = memory.keys();
        let score =
            |mask: &Mask| additive_score(queries.clone(), keys.clone(), weight.clone(), mask);
        return steps(NAME, score, &memory, &modifiers, options).context;
    }
    from_four_axes(attend(queries, &memory, sizes, score, modifiers, dropout))
}

/// [`additive_attention`], with all that it does not store: scores and weights.
///
/// # Panics
/// As [`additive_attention`].
pub fn additive_attention_steps<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
    weight: Tensor<1>,
    options: impl Into<AttentionOptions>,
) -> AttentionSteps<D> {
    const NAME: &str = "additive_attention";
    let options = &options.into();
    assert_no_scale(NAME, options);
    let (queries, memory, _, modifiers) = call(NAME, queries, keys, values, options);
    let keys = memory.keys();
    let score = |mask: &Mask| additive_score(queries.clone(), keys.clone(), weight.clone(), mask);
    steps(NAME, score, &memory, &modifiers, options)
}

fn assert_no_scale(operation: &str, options: &AttentionOptions) {
    assert!(
        options.scale.is_none(),
        "{operation}: scale expected none, as the weight has it, got {:?}",
        options.scale
    );
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = sum_h weight[h] f(queries[b,n,i,h], keys[b,n,j,h])` of a formula of your own and what `options`
/// change of it. On a CPU, neither scores nor terms of a pair are stored; elsewhere both are.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, values `[batch,
///   key_heads, keys, value_size]`, where `key_heads` divides `heads`; or all three without heads. One with a batch of
///   1 serves all examples
/// - weight `[num_hiddens]`; ones if there is none
/// - result `[batch, heads, queries, value_size]`, or without heads
///
/// # Panics
/// If shapes, types, devices or an option do not fit together, or there is a `scale`.
pub fn pairwise_attention<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
    term: Arc<dyn PairwiseFormula>,
    weight: Option<Tensor<1>>,
    options: impl Into<AttentionOptions>,
) -> Tensor<D> {
    const NAME: &str = "pairwise_attention";
    let options = &options.into();
    assert_no_scale(NAME, options);
    let (queries, memory, sizes, modifiers) = call(NAME, queries, keys, values, options);
    let score = FusedScore::Pairwise {
        term: term.clone(),
        weight: weight.clone(),
    };
    if !score.runs(&modifiers, &queries) {
        let keys = memory.keys();
        let score = |mask: &Mask| {
            pairwise_score(queries.clone(), keys.clone(), &*term, weight.clone(), mask)
        };
        return steps(NAME, score, &memory, &modifiers, options).context;
    }
    let dropout = options.dropout.unwrap_or(0.0);
    from_four_axes(attend(queries, &memory, sizes, score, modifiers, dropout))
}

/// The parts of a call with four axes.
fn call<const D: usize>(
    operation: &str,
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
    options: &AttentionOptions,
) -> (Tensor<4>, Memory, Sizes, Modifiers) {
    let [queries, keys, values] = of_one_batch([queries, keys, values].map(to_four_axes));
    let [batch, key_heads, num_keys, _] = keys.dims();
    assert_shape!(values, [batch, key_heads, num_keys, _]);
    let others = [
        Argument::floats("keys", &keys),
        Argument::floats("values", &values),
    ];
    assert_together(operation, Argument::floats("queries", &queries), others);
    let memory = Memory::of_cleared(keys, values, options.mask.clone());
    let sizes = Sizes::of_call(operation, &queries, &memory);
    options.check(operation, sizes, &queries, &memory);
    let modifiers = options.modifiers();
    let Some(extra) = &options.extra_keys else {
        return (queries, memory, sizes, modifiers);
    };
    let (memory, sizes, modifiers) =
        with_extra_keys(&memory, sizes, modifiers, extra.clone(), None);
    (queries, memory, sizes, modifiers)
}

/// The steps from `score`, which computes the pairs that a mask leaves.
fn steps<const D: usize>(
    operation: &str,
    score: impl Fn(&Mask) -> Tensor<4>,
    memory: &Memory,
    modifiers: &Modifiers,
    options: &AttentionOptions,
) -> AttentionSteps<D> {
    let mask = memory.mask();
    let values = memory.values();
    let dtype = values.dtype();
    let scores = score(&Mask::none());
    let cap = Modifiers {
        soft_cap: modifiers.soft_cap,
        ..Modifiers::default()
    };
    let capped = modify(operation, scores.clone(), &cap);
    // Computed once more without masked pairs: what these hold is in `scores`, and reaches nothing else.
    let modified = modify(operation, score(mask), modifiers);
    let weights = softmax_with_sinks(operation, modified.clone(), mask, modifiers).cast(dtype);
    let dropped = drop_weights(weights.clone(), options.dropout.unwrap_or(0.0));
    AttentionSteps {
        scores: from_four_axes(scores),
        capped: from_four_axes(capped),
        masked: from_four_axes(fill_masked(modified, mask, f64::NEG_INFINITY)),
        weights: from_four_axes(weights),
        context: from_four_axes(weighted_sum(dropped, values, mask)),
    }
}
