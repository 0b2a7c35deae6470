//! Attention on queries, keys and values.

use std::sync::Arc;

use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::assert_together;
use burn_fused_layers::paths::composed;

use super::extra_keys::{extra_keys_last, with_extra_keys};
use super::fused::{FusedScore, attend};
use super::keys_and_values::KeysAndValues;
use super::modifiers::{modify, softmax_with_sinks};
use super::options::AttentionOptions;
use super::pairwise::PairwiseFormula;
use super::score::default_scale;
use super::sizes::{Sizes, assert_a_value_for_each_key};
use super::{drop_weights, fill_masked, weighted_sum};
use crate::mask::Mask;
use crate::rank::{Sequences, from_four_axes, in_one_batch};

/// Every step from scores to the context.
#[derive(Clone, Debug)]
pub struct AttentionSteps<const D: usize> {
    /// The scores themselves, masked pairs included, `[batch, queries, keys]` or `[batch, heads, queries, keys]`.
    pub scores: Tensor<D>,
    /// The scores after the soft-cap.
    pub capped: Tensor<D>,
    /// The scores after biases, `score_mod` and mask: minus infinity where masked.
    pub masked: Tensor<D>,
    /// The weights before dropout; a row sums to 1, less the weight of sinks, or is 0 if the query attends to no key.
    pub weights: Tensor<D>,
    /// `[batch, queries, value_size]` or `[batch, heads, queries, value_size]`.
    pub context: Tensor<D>,
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]` modified by `options`. No score is stored where the device
/// has a kernel.
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
    let options = options.into();
    let score = dot_product(&queries, &options);
    context(Call::new(NAME, [queries, keys, values], options), score)
}

/// [`dot_product_attention`], with the scores and weights that it does not store.
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
    let options = options.into();
    let score = dot_product(&queries, &options);
    steps(Call::new(NAME, [queries, keys, values], options), score)
}

/// The score of a call; its default scale follows from the size of the queries.
fn dot_product<const D: usize>(queries: &Tensor<D>, options: &AttentionOptions) -> FusedScore {
    let size = queries.dims()[D - 1];
    FusedScore::DotProduct {
        scale: options.scale.unwrap_or_else(|| default_scale(size)),
    }
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])` modified by `options`. Queries and keys
/// are already projected; neither scores nor hidden units of a pair are stored where the device has a kernel.
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate". Keras equivalent:
/// `AdditiveAttention`, whose `scale` is the weight.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, values `[batch,
///   key_heads, keys, value_size]`, where `key_heads` divides `heads`; or all three without heads. A tensor with a
///   batch of 1 serves all examples
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
    let options = options.into();
    assert_no_scale(NAME, &options);
    let score = FusedScore::Additive { weight };
    context(Call::new(NAME, [queries, keys, values], options), score)
}

/// [`additive_attention`], with the scores and weights that it does not store.
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
    let options = options.into();
    assert_no_scale(NAME, &options);
    let score = FusedScore::Additive { weight };
    steps(Call::new(NAME, [queries, keys, values], options), score)
}

fn assert_no_scale(operation: &str, options: &AttentionOptions) {
    assert!(
        options.scale.is_none(),
        "{operation}: scale expected none, as the weight has it, got {:?}",
        options.scale
    );
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = sum_h weight[h] f(queries[b,n,i,h], keys[b,n,j,h])` with a formula `f` of your own, modified by
/// `options`. On a CPU, neither scores nor terms of a pair are stored; elsewhere both are.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, values `[batch,
///   key_heads, keys, value_size]`, where `key_heads` divides `heads`; or all three without heads. A tensor with a
///   batch of 1 serves all examples
/// - weight `[num_hiddens]`; `None` for ones
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
    let options = options.into();
    assert_no_scale(NAME, &options);
    let score = FusedScore::Pairwise { term, weight };
    context(Call::new(NAME, [queries, keys, values], options), score)
}

/// A checked call.
struct Call {
    operation: &'static str,
    queries: Sequences,
    rows: KeysAndValues,
    sizes: Sizes,
    options: AttentionOptions,
}

impl Call {
    fn new<const D: usize>(
        operation: &'static str,
        [queries, keys, values]: [Tensor<D>; 3],
        options: AttentionOptions,
    ) -> Self {
        let [queries, keys, values] = in_one_batch(queries, keys, values);
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let others = [keys.argument("keys"), values.argument("values")];
        assert_together(operation, queries.argument("queries"), others);
        let rows = KeysAndValues::new(keys, values, options.mask.clone());
        let sizes = Sizes::of_call(operation, &queries, &rows);
        options.check(operation, sizes, &queries, &rows);
        let (rows, sizes, options) = match options.extra_keys.clone() {
            Some(extra) => with_extra_keys(&rows, sizes, options, extra, None),
            None => (rows, sizes, options),
        };
        Self {
            operation,
            queries,
            rows,
            sizes,
            options,
        }
    }
}

/// The context: fused, unless a function of the user's own only works on tensors.
fn context<const D: usize>(call: Call, score: FusedScore) -> Tensor<D> {
    if !score.runs(&call.options, &call.queries) {
        let why = "no kernel has a function of one's own here";
        composed(call.operation, why, call.queries.as_dispatch());
        return from_four_axes(Pooled::of(&call, &score).context);
    }
    let (queries, sizes, options) = (call.queries, call.sizes, call.options);
    let dropout = options.dropout.unwrap_or(0.0);
    attend(queries, &call.rows, sizes, score, &options, dropout).into_tensor()
}

/// The results of a call composed of tensor operations.
struct Pooled {
    /// The scores of the pairs that the mask keeps, modified.
    modified: Tensor<4>,
    /// The weights before dropout.
    weights: Tensor<4>,
    context: Tensor<4>,
}

impl Pooled {
    fn of(call: &Call, score: &FusedScore) -> Self {
        let (queries, keys) = (call.queries.to_tensor(), call.rows.keys.to_tensor());
        let (values, mask, options) = (&call.rows.values, &call.rows.mask, &call.options);
        let scores = score.scores(queries, keys, mask);
        let modified = modify(call.operation, scores, options);
        let weights = softmax_with_sinks(modified.clone(), mask, options).cast(values.dtype());
        let dropped = drop_weights(weights.clone(), options.dropout.unwrap_or(0.0));
        Self {
            modified,
            weights,
            context: weighted_sum(dropped, values.to_tensor(), mask),
        }
    }
}

fn steps<const D: usize>(call: Call, score: FusedScore) -> AttentionSteps<D> {
    let (queries, keys) = (call.queries.to_tensor(), call.rows.keys.to_tensor());
    let scores = score.scores(queries, keys, &Mask::none());
    let cap = AttentionOptions {
        soft_cap: call.options.soft_cap,
        ..Default::default()
    };
    let capped = modify(call.operation, scores.clone(), &cap);
    // The scores once more, without masked pairs; `scores` holds the masked ones, which reach nothing else.
    let pooled = Pooled::of(&call, &score);
    let masked = fill_masked(pooled.modified, &call.rows.mask, f64::NEG_INFINITY);
    let pairs = |pairs| match &call.options.extra_keys {
        Some([keys, _]) => from_four_axes(extra_keys_last(pairs, keys.dims()[2])),
        None => from_four_axes(pairs),
    };
    AttentionSteps {
        scores: pairs(scores),
        capped: pairs(capped),
        masked: pairs(masked),
        weights: pairs(pooled.weights),
        context: from_four_axes(pooled.context),
    }
}
