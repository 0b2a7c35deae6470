//! The operations of the door on tensors: shapes are checked, and sizes of 0 are taken care of, before anything is
//! dispatched.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, assert_shape};

use super::{
    AttentionOps, AttentionOptions, GradientSlot, MaskPrimitive, SharedGradients, composed,
};
use crate::Mask;

/// [`AttentionOps::fill_padding`] on tensors, for `num_queries` queries.
///
/// # Panics
/// If the mask does not fit.
pub fn fill_padding(tensor: Tensor<4>, mask: &Mask, num_queries: usize) -> Tensor<4> {
    let [batch, heads, num_keys, size] = tensor.dims();
    let mask = mask.resolve([batch, heads, num_queries, num_keys], &tensor.device());
    if matches!(mask, MaskPrimitive::None) || batch * heads * num_queries * num_keys * size == 0 {
        return tensor;
    }
    Tensor::from_dispatch(<Dispatch as AttentionOps>::fill_padding(
        tensor.into_dispatch(),
        mask,
    ))
}

/// `value` for each pair of query and key that the mask hides; what was there reaches neither result nor gradients.
///
/// # Shapes
/// - pairs and result `[batch, heads, queries, keys]`
///
/// # Panics
/// If the mask does not fit.
pub fn fill_hidden(pairs: Tensor<4>, mask: &Mask, value: f64) -> Tensor<4> {
    let mask = mask.resolve(pairs.dims(), &pairs.device());
    if matches!(mask, MaskPrimitive::None) || pairs.dims().contains(&0) {
        return pairs;
    }
    let pairs = pairs.into_dispatch();
    Tensor::from_dispatch(composed::fill_hidden::<Dispatch>(pairs, mask, value))
}

/// [`AttentionOps::additive_score`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::additive_score`], or the mask does not fit them.
pub fn additive_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
) -> Tensor<4> {
    let [batch, heads, num_queries, num_hiddens] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, heads, num_keys, num_hiddens]);
    assert_shape!(weight, [num_hiddens]);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || num_hiddens == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let mask = mask.resolve(shape, &queries.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_score(
        queries.into_dispatch(),
        keys.into_dispatch(),
        weight.into_dispatch(),
        mask,
    ))
}

/// [`AttentionOps::dot_product_score`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::dot_product_score`], or the mask does not fit them.
pub fn dot_product_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    mask: &Mask,
    scale: f64,
) -> Tensor<4> {
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, _, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, heads, num_keys, size]);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || size == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let mask = mask.resolve(shape, &queries.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::dot_product_score(
        queries.into_dispatch(),
        keys.into_dispatch(),
        mask,
        scale,
    ))
}

/// [`AttentionOps::masked_softmax`] on tensors.
///
/// # Panics
/// If the mask does not fit `scores`.
pub fn masked_softmax(scores: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let mask = mask.resolve(scores.dims(), &scores.device());
    if scores.dims().contains(&0) {
        return scores;
    }
    Tensor::from_dispatch(<Dispatch as AttentionOps>::masked_softmax(
        scores.into_dispatch(),
        mask,
    ))
}

/// [`AttentionOps::weighted_sum`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::weighted_sum`], or the mask does not fit them.
pub fn weighted_sum(weights: Tensor<4>, values: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let [batch, heads, num_queries, num_keys] = weights.dims();
    let [_, _, _, value_size] = values.dims();
    assert_shape!(values, [batch, heads, num_keys, value_size]);
    if weights.dims().contains(&0) || value_size == 0 {
        let shape = [batch, heads, num_queries, value_size];
        return Tensor::zeros(shape, (&values.device(), values.dtype()));
    }
    let mask = mask.resolve(weights.dims(), &weights.device());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::weighted_sum(
        weights.into_dispatch(),
        values.into_dispatch(),
        mask,
    ))
}

/// Queries, keys and values, and how to go from one to the other.
#[derive(Clone, Debug)]
pub(crate) struct Pooling<'a> {
    /// `[batch, heads, queries, _]`
    pub(crate) queries: Tensor<4>,
    /// `[batch, heads, keys, _]`, of the queries' size.
    pub(crate) keys: Tensor<4>,
    /// `[batch, heads, keys, value_size]`
    pub(crate) values: Tensor<4>,
    /// Which keys each query sees.
    pub(crate) mask: &'a Mask,
    /// The probability to drop a weight.
    pub(crate) dropout: f64,
    /// Of a memory's keys and values.
    pub(crate) shared: Option<SharedGradients>,
}

impl Pooling<'_> {
    /// The context where there is nothing to compare: without pairs or values it is 0 or empty, without a size all
    /// scores are equal.
    ///
    /// # Panics
    /// If the shapes do not fit together or the dropout is not in `[0, 1)`.
    fn trivial(&self, operation: &str) -> Option<Tensor<4>> {
        let [batch, heads, num_queries, size] = self.queries.dims();
        let [_, _, num_keys, _] = self.keys.dims();
        let [_, _, _, value_size] = self.values.dims();
        assert_shape!(self.keys, [batch, heads, num_keys, size]);
        assert_shape!(self.values, [batch, heads, num_keys, value_size]);
        let dropout = self.dropout;
        assert!(
            (0.0..1.0).contains(&dropout),
            "{operation}: dropout expected in [0, 1), got {dropout}"
        );
        let shape = [batch, heads, num_queries, num_keys];
        if shape.contains(&0) || value_size == 0 {
            let shape = [batch, heads, num_queries, value_size];
            let options = (&self.values.device(), self.values.dtype());
            return Some(Tensor::zeros(shape, options));
        }
        None
    }

    fn mask(&self) -> MaskPrimitive<Dispatch> {
        let [batch, heads, num_queries, _] = self.queries.dims();
        let [_, _, num_keys, _] = self.keys.dims();
        let shape = [batch, heads, num_queries, num_keys];
        self.mask.resolve(shape, &self.queries.device())
    }

    /// [`attention`], with a bias of each key.
    ///
    /// # Shapes
    /// - bias `[batch or 1, heads or 1, 1, keys]`
    pub(crate) fn attention(self, bias: Option<Tensor<4>>, scale: f64) -> Tensor<4> {
        if let Some(context) = self.trivial("attention") {
            return context;
        }
        let [batch, heads, _, size] = self.queries.dims();
        let [_, _, num_keys, _] = self.keys.dims();
        let bias = bias.map(|bias| {
            let [bias_batch, bias_heads, ..] = bias.dims();
            assert_shape!(bias, [bias_batch, bias_heads, 1, num_keys]);
            assert!(
                [1, batch].contains(&bias_batch) && [1, heads].contains(&bias_heads),
                "attention: bias expected [{batch} or 1, {heads} or 1, 1, {num_keys}], got {:?}",
                bias.dims()
            );
            bias.expand([batch, bias_heads, 1, num_keys])
        });
        let (mut queries, mut keys) = (self.queries.clone(), self.keys.clone());
        if size == 0 {
            let zeros = |like: &Tensor<4>| {
                let [batch, heads, rows, _] = like.dims();
                Tensor::zeros([batch, heads, rows, 1], (&like.device(), like.dtype()))
            };
            (queries, keys) = (zeros(&queries), zeros(&keys));
        }
        let options = AttentionOptions {
            scale,
            dropout: self.dropout,
        };
        let mask = self.mask();
        Tensor::from_dispatch(<Dispatch as AttentionOps>::attention(
            queries.into_dispatch(),
            keys.into_dispatch(),
            self.values.into_dispatch(),
            bias.into(),
            mask,
            options,
            self.shared,
        ))
    }

    /// [`additive_attention`], with the keys packed before or not.
    pub(crate) fn additive(self, weight: Tensor<1>, packed: Option<Tensor<4>>) -> Tensor<4> {
        let [_, _, _, num_hiddens] = self.queries.dims();
        assert_shape!(weight, [num_hiddens]);
        if let Some(context) = self.trivial("additive_attention") {
            return context;
        }
        if num_hiddens == 0 {
            return self.attention(None, 1.0);
        }
        let mask = self.mask();
        Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_attention(
            self.queries.into_dispatch(),
            self.keys.into_dispatch(),
            self.values.into_dispatch(),
            weight.into_dispatch(),
            mask,
            packed.into(),
            self.dropout,
            self.shared,
        ))
    }
}

/// [`AttentionOps::attention`] on tensors, without a bias.
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`, except that a row without a
/// visible key is 0 and that causal masks are aligned bottom-right.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::attention`], the mask does not fit them, the scale is not finite, or
/// the dropout is not in `[0, 1)`.
pub fn attention(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    mask: &Mask,
    options: AttentionOptions,
) -> Tensor<4> {
    let AttentionOptions { scale, dropout } = options;
    assert!(
        scale.is_finite(),
        "attention: scale expected to be finite, got {scale}"
    );
    let pooling = Pooling {
        queries,
        keys,
        values,
        mask,
        dropout,
        shared: None,
    };
    pooling.attention(None, scale)
}

/// [`AttentionOps::additive_attention`] on tensors.
///
/// # Panics
/// If the shapes are not those of [`AttentionOps::additive_attention`], the mask does not fit them, or the dropout is
/// not in `[0, 1)`.
pub fn additive_attention(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
    dropout: f64,
) -> Tensor<4> {
    let pooling = Pooling {
        queries,
        keys,
        values,
        mask,
        dropout,
        shared: None,
    };
    pooling.additive(weight, None)
}

/// [`AttentionOps::pack_additive_keys`] on tensors, for keys of which `mask` tells what it can without the queries'
/// positions.
pub(crate) fn pack_additive_keys(
    keys: Tensor<4>,
    mask: &Mask,
    num_queries: usize,
) -> Option<Tensor<4>> {
    let [batch, heads, num_keys, num_hiddens] = keys.dims();
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || num_hiddens == 0 {
        return None;
    }
    let mask = mask.resolve(shape, &keys.device());
    let packed =
        <Dispatch as AttentionOps>::pack_additive_keys(keys.into_dispatch(), mask, num_queries);
    Some(Tensor::from_dispatch(packed))
}

/// [`AttentionOps::share_gradients`] on tensors.
pub(crate) fn share_gradients(tensor: Tensor<4>, slot: &GradientSlot) -> Tensor<4> {
    match tensor.dims().contains(&0) {
        true => tensor,
        false => Tensor::from_dispatch(<Dispatch as AttentionOps>::share_gradients(
            tensor.into_dispatch(),
            slot.clone(),
        )),
    }
}
