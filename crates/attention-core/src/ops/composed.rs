//! The definitions: every operation of the door, composed from Burn's own.
//!
//! Two things keep a masked key from leaking. A forward pass would leak through `0 * NaN` in the weighted
//! sum, a backward pass through `0 * NaN` in the gradients. So whatever is masked is replaced by a finite
//! number *before* the product that would multiply it by zero: `mask_fill` has gradient 0 where it fills.
//!
//! A key that no query sees (padding) is simply filled. A key that some queries see and others do not
//! (causal masks) must reach exactly those that see it, see [`Split`].

use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::{DType, Distribution, FloatDType, IntDType, Shape};

use super::{AttentionOps, AttentionOptions, MaskPrimitive, OptionalTensor};

/// Zeros in the rows of keys that are hidden from every query.
pub(super) fn fill_padding<B: Backend>(
    tensor: FloatTensor<B>,
    mask: MaskPrimitive<B>,
) -> FloatTensor<B> {
    let [_, _, num_keys, _] = tensor.shape().dims();
    Hidden::<B>::new(mask, num_keys, &tensor).fill_padding(tensor)
}

/// `value` where hidden, of `[batch, heads, queries, keys]`.
pub(super) fn fill_hidden<B: Backend>(
    pairs: FloatTensor<B>,
    mask: MaskPrimitive<B>,
    value: f64,
) -> FloatTensor<B> {
    let [_, _, _, num_keys] = pairs.shape().dims();
    Hidden::<B>::new(mask, num_keys, &pairs).fill(pairs, value)
}

/// `weight . tanh(queries + keys)`, the hidden axis last, summed by a product with `weight`.
pub(super) fn additive_score<B: Backend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: MaskPrimitive<B>,
) -> FloatTensor<B> {
    let [batch, heads, num_queries, hiddens] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let hidden = Hidden::<B>::new(mask, num_keys, &queries);

    let keys = hidden.fill_padding(keys);
    let queries = B::float_reshape(queries, [batch, heads, num_queries, 1, hiddens].into());
    let keys = B::float_reshape(keys, [batch, heads, 1, num_keys, hiddens].into());
    let sum = hidden.fill_pairs(B::float_add(queries, keys));
    let features = B::float_tanh(sum);

    let rows = batch * heads * num_queries * num_keys;
    let features = B::float_reshape(features, [rows, hiddens].into());
    let weight = B::float_reshape(weight, [hiddens, 1].into());
    let scores = B::float_matmul(features, weight);
    let scores = B::float_reshape(scores, [batch, heads, num_queries, num_keys].into());
    hidden.fill(scores, 0.0)
}

/// `scale * queries keys^T`.
pub(super) fn dot_product_score<B: Backend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    mask: MaskPrimitive<B>,
    scale: f64,
) -> FloatTensor<B> {
    let [_, _, num_keys, _] = keys.shape().dims();
    let hidden = Hidden::<B>::new(mask, num_keys, &queries);
    let keys = hidden.fill_padding(keys);
    let queries = B::float_mul_scalar(queries, scale.into());
    let scores = match hidden.per_query() {
        false => B::float_matmul(queries, B::float_transpose(keys)),
        true => {
            // A key that is not finite gets its scores from the keys as they are, without a gradient: the weights
            // of the queries that see it carry what it holds to theirs.
            let raw = B::float_matmul(
                B::float_detach(queries.clone()),
                B::float_transpose(B::float_detach(keys.clone())),
            );
            let split = Split::<B>::new(keys);
            let is_poison = B::bool_swap_dims(B::bool_any_dim(split.is_poison, 3), 2, 3);
            let is_poison = B::bool_expand(is_poison, raw.shape());
            let clean = B::float_matmul(queries, B::float_transpose(split.finite));
            B::float_mask_where(clean, is_poison, raw)
        }
    };
    hidden.fill(scores, 0.0)
}

/// `exp(score - max) / sum`, over the visible keys; half precision accumulates in f32.
pub(super) fn masked_softmax<B: Backend>(
    scores: FloatTensor<B>,
    mask: MaskPrimitive<B>,
) -> FloatTensor<B> {
    let dtype = scores.dtype();
    let half = matches!(dtype, DType::F16 | DType::BF16);
    let scores = match half {
        true => B::float_cast(scores, FloatDType::F32),
        false => scores,
    };
    let [_, _, _, num_keys] = scores.shape().dims();
    let hidden = Hidden::<B>::new(mask, num_keys, &scores);
    // The most negative finite number stands for a hidden score: it is finite, so the maximum of a row that
    // sees nothing stays finite too. A user's own `-inf` is below it and counts as hidden.
    let lowest = match scores.dtype() {
        DType::F64 => f64::MIN,
        _ => f64::from(f32::MIN),
    };
    let minus_infinity =
        B::float_lower_elem(scores.clone(), lowest.into(), bool_dtype::<B>(&scores));
    let hidden = hidden.or(minus_infinity);

    let scores = hidden.fill(scores, lowest);
    let row_max = B::float_max_dim(B::float_detach(scores.clone()), 3);
    let exp = hidden.fill(B::float_exp(B::float_sub(scores, row_max)), 0.0);
    let sum = B::float_sum_dim(exp.clone(), 3);
    // The largest visible score contributes 1, so a sum of 0 counts zero visible keys.
    let empty = B::float_equal_elem(sum.clone(), 0.0.into(), bool_dtype::<B>(&sum));
    let sum = B::float_mask_fill(sum, empty, 1.0.into());
    // Filled once more: a NaN in the gradient of a hidden weight must not enter the row's sum.
    let weights = hidden.fill(B::float_div(exp, sum), 0.0);
    match half {
        true => B::float_cast(weights, dtype.into()),
        false => weights,
    }
}

/// `weights values`.
pub(super) fn weighted_sum<B: Backend>(
    weights: FloatTensor<B>,
    values: FloatTensor<B>,
    mask: MaskPrimitive<B>,
) -> FloatTensor<B> {
    let [_, _, num_keys, _] = values.shape().dims();
    let hidden = Hidden::<B>::new(mask, num_keys, &weights);
    let values = hidden.fill_padding(values);
    if !hidden.per_query() {
        return B::float_matmul(weights, values);
    }
    // The product of the finite part serves every query that sees finite values only; the others take the
    // product of the values as they are.
    let weights = hidden.fill(weights, 0.0);
    let split = Split::<B>::new(values.clone());
    let reached = hidden.reached_by(split.is_poison);
    let clean = B::float_matmul(weights.clone(), split.finite);
    let raw = B::float_matmul(weights, values);
    B::float_mask_where(clean, reached, raw)
}

/// Score and bias, softmax, dropout, weighted sum.
pub(super) fn attention<B: AttentionOps>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    values: FloatTensor<B>,
    bias: OptionalTensor<B>,
    mask: MaskPrimitive<B>,
    options: AttentionOptions,
) -> FloatTensor<B> {
    let scores = B::dot_product_score(queries, keys, mask.clone(), options.scale);
    let scores = match bias.into_option() {
        Some(bias) => B::float_add(scores, bias),
        None => scores,
    };
    let weights = B::masked_softmax(scores, mask.clone());
    let weights = dropout::<B>(weights, options.dropout);
    B::weighted_sum(weights, values, mask)
}

/// Score, softmax, dropout, weighted sum.
pub(super) fn additive_attention<B: AttentionOps>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    values: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: MaskPrimitive<B>,
    probability: f64,
) -> FloatTensor<B> {
    let scores = B::additive_score(queries, keys, weight, mask.clone());
    let weights = B::masked_softmax(scores, mask.clone());
    let weights = dropout::<B>(weights, probability);
    B::weighted_sum(weights, values, mask)
}

fn dropout<B: Backend>(weights: FloatTensor<B>, probability: f64) -> FloatTensor<B> {
    if probability == 0.0 {
        return weights;
    }
    let keep = 1.0 - probability;
    let mask = B::float_random(
        weights.shape(),
        Distribution::Bernoulli(keep),
        &weights.device(),
        weights.dtype().into(),
    );
    B::float_mul_scalar(B::float_mul(weights, mask), (1.0 / keep).into())
}

/// The hidden pairs of query and key, true where hidden: `[batch or 1, heads or 1, queries or 1, keys]`.
struct Hidden<B: Backend>(Option<BoolTensor<B>>);

impl<B: Backend> Hidden<B> {
    fn new(mask: MaskPrimitive<B>, num_keys: usize, like: &FloatTensor<B>) -> Self {
        let device = like.device();
        let outside = |start, end| outside::<B>(start, end, num_keys, &device);
        let dropped = |keep: BoolTensor<B>| {
            let [batch, heads, queries, _] = keep.shape().dims();
            B::bool_not(B::bool_expand(
                keep,
                [batch, heads, queries, num_keys].into(),
            ))
        };
        Self(match mask {
            MaskPrimitive::None => None,
            MaskPrimitive::Intervals { start, end } => Some(outside(start, end)),
            MaskPrimitive::Dense { keep } => Some(dropped(keep)),
            MaskPrimitive::IntervalsAndDense { start, end, keep } => {
                Some(broadcast_or::<B>(outside(start, end), dropped(keep)))
            }
        })
    }

    fn or(self, other: BoolTensor<B>) -> Self {
        Self(Some(match self.0 {
            Some(hidden) => broadcast_or::<B>(hidden, other),
            None => other,
        }))
    }

    /// Whether queries of one example may see different keys.
    fn per_query(&self) -> bool {
        self.0.as_ref().is_some_and(|hidden| hidden.shape()[2] > 1)
    }

    /// Fills `[batch, heads, queries, keys]` where hidden.
    fn fill(&self, tensor: FloatTensor<B>, value: f64) -> FloatTensor<B> {
        match &self.0 {
            Some(hidden) => {
                let hidden = B::bool_expand(hidden.clone(), tensor.shape());
                B::float_mask_fill(tensor, hidden, value.into())
            }
            None => tensor,
        }
    }

    /// Fills `[batch, heads, queries, keys, size]` where hidden, if queries see different keys.
    fn fill_pairs(&self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        match &self.0 {
            Some(hidden) if self.per_query() => {
                let [batch, heads, queries, keys] = hidden.shape().dims();
                let shape = Shape::from([batch, heads, queries, keys, 1]);
                let hidden = B::bool_reshape(hidden.clone(), shape);
                let hidden = B::bool_expand(hidden, tensor.shape());
                B::float_mask_fill(tensor, hidden, 0.0.into())
            }
            _ => tensor,
        }
    }

    /// Fills the rows of `[batch, heads, keys, size]` that no query sees.
    fn fill_padding(&self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        match &self.0 {
            Some(hidden) => {
                let padding = match self.per_query() {
                    true => B::bool_all_dim(hidden.clone(), 2),
                    false => hidden.clone(),
                };
                let padding = B::bool_swap_dims(padding, 2, 3);
                let padding = B::bool_expand(padding, tensor.shape());
                B::float_mask_fill(tensor, padding, 0.0.into())
            }
            None => tensor,
        }
    }

    /// For flags on `[batch, heads, keys, size]`: does a query see a flagged key?
    /// `[batch, heads, queries, size]`.
    fn reached_by(&self, flags: BoolTensor<B>) -> BoolTensor<B> {
        let [batch, heads, num_keys, _] = flags.shape().dims();
        let settings = get_device_settings::<B>(&flags.device());
        let hidden = self
            .0
            .clone()
            .expect("only asked of masks that differ per query");
        let [_, _, queries, _] = hidden.shape().dims();
        let visible = B::bool_expand(
            B::bool_not(hidden),
            [batch, heads, queries, num_keys].into(),
        );
        let visible = B::bool_into_float(visible, settings.float_dtype);
        let flags = B::bool_into_float(flags, settings.float_dtype);
        let count = B::float_matmul(visible, flags);
        B::float_greater_elem(count, 0.0.into(), settings.bool_dtype)
    }
}

/// A tensor's finite part, and where the rest is. Multiplying by the finite part is safe where a masked factor is
/// 0; the rest is brought in by selections, which do not mix queries.
struct Split<B: Backend> {
    finite: FloatTensor<B>,
    is_poison: BoolTensor<B>,
}

impl<B: Backend> Split<B> {
    fn new(tensor: FloatTensor<B>) -> Self {
        let bool_dtype = bool_dtype::<B>(&tensor);
        let largest = tensor
            .dtype()
            .finfo()
            .map_or(f64::from(f32::MAX), |info| info.max);
        // NaN compares false, infinity is larger.
        let magnitude = B::float_abs(B::float_detach(tensor.clone()));
        let is_finite = B::float_lower_equal_elem(magnitude, largest.into(), bool_dtype);
        let is_poison = B::bool_not(is_finite);
        Self {
            finite: B::float_mask_fill(tensor, is_poison.clone(), 0.0.into()),
            is_poison,
        }
    }
}

/// True where a key lies outside its query's interval.
fn outside<B: Backend>(
    start: IntTensor<B>,
    end: IntTensor<B>,
    num_keys: usize,
    device: &Device<B>,
) -> BoolTensor<B> {
    let bool_dtype = get_device_settings::<B>(device).bool_dtype;
    let [batch, _, queries, _] = end.shape().dims();
    let shape = Shape::from([batch, 1, queries, num_keys]);
    let int_dtype = IntDType::from(end.dtype());
    let keys = B::int_arange(0..num_keys as i64, device, int_dtype);
    let keys = B::int_expand(
        B::int_reshape(keys, [1, 1, 1, num_keys].into()),
        shape.clone(),
    );
    let before = B::int_lower(
        keys.clone(),
        B::int_expand(start, shape.clone()),
        bool_dtype,
    );
    let after = B::int_greater_equal(keys, B::int_expand(end, shape), bool_dtype);
    B::bool_or(before, after)
}

fn broadcast_or<B: Backend>(lhs: BoolTensor<B>, rhs: BoolTensor<B>) -> BoolTensor<B> {
    let lhs_dims = lhs.shape().dims::<4>();
    let rhs_dims = rhs.shape().dims::<4>();
    let shape: [usize; 4] = std::array::from_fn(|axis| lhs_dims[axis].max(rhs_dims[axis]));
    B::bool_or(
        B::bool_expand(lhs, shape.into()),
        B::bool_expand(rhs, shape.into()),
    )
}

fn bool_dtype<B: Backend>(like: &FloatTensor<B>) -> burn::tensor::BoolDType {
    get_device_settings::<B>(&like.device()).bool_dtype
}
