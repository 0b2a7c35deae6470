//! Scores of all pairs of queries and keys.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::widened;

use super::key_heads::{assert_divides, repeat_key_heads};
use super::padding::fill_masked;
use super::pairwise::PairwiseFormula;
use crate::mask::Mask;
use crate::ops::{AdditiveScoreInputs, AttentionOps, DotProductScoreInputs};

/// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, weight
///   `[num_hiddens]`
/// - result `[batch, heads, queries, keys]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together.
pub fn additive_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
) -> Tensor<4> {
    const NAME: &str = "additive_score";
    let [batch, heads, num_queries, num_hiddens] = queries.dims();
    let [_, key_heads, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, key_heads, num_keys, num_hiddens]);
    assert_divides(NAME, key_heads, heads);
    assert_shape!(weight, [num_hiddens]);
    let others = [
        Argument::floats("keys", &keys),
        Argument::floats("weight", &weight),
    ];
    assert_together(NAME, Argument::floats("queries", &queries), others);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || num_hiddens == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let inputs = AdditiveScoreInputs {
        mask: mask.resolve(shape, &queries.device()),
        queries: queries.into_dispatch(),
        keys: keys.into_dispatch(),
        weight: weight.into_dispatch(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_score(inputs))
}

/// `1 / sqrt(size)`, which keeps the variance of a dot product at one for any size.
pub(crate) fn default_scale(size: usize) -> f64 {
    1.0 / (size.max(1) as f64).sqrt()
}

/// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]`, and 0 where masked.
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`, keys `[batch, key_heads, keys, size]`
/// - result `[batch, heads, queries, keys]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together.
pub fn dot_product_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    mask: &Mask,
    scale: f64,
) -> Tensor<4> {
    let [batch, heads, num_queries, size] = queries.dims();
    let [_, key_heads, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, key_heads, num_keys, size]);
    assert_divides("dot_product_score", key_heads, heads);
    let others = [Argument::floats("keys", &keys)];
    let first = Argument::floats("queries", &queries);
    assert_together("dot_product_score", first, others);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || size == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let inputs = DotProductScoreInputs {
        mask: mask.resolve(shape, &queries.device()),
        queries: queries.into_dispatch(),
        keys: keys.into_dispatch(),
        scale,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::dot_product_score(inputs))
}

/// `score[b,n,i,j] = sum_h weight[h] f(queries[b,n,i,h], keys[b,n,j,h])`, composed, and 0 where masked; in `f32` at
/// least. It stores a term for each hidden unit of a pair, which [`pairwise_attention`](super::pairwise_attention) does
/// not. The term is given zeros for queries and keys of masked pairs.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, weight
///   `[num_hiddens]`, `None` for ones
/// - result `[batch, heads, queries, keys]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together.
pub fn pairwise_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    term: &dyn PairwiseFormula,
    weight: Option<Tensor<1>>,
    mask: &Mask,
) -> Tensor<4> {
    const NAME: &str = "pairwise_score";
    let [batch, heads, num_queries, num_hiddens] = queries.dims();
    let [_, key_heads, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, key_heads, num_keys, num_hiddens]);
    assert_divides(NAME, key_heads, heads);
    if let Some(weight) = &weight {
        assert_shape!(weight, [num_hiddens]);
    }
    let of_keys = std::iter::once(Argument::floats("keys", &keys));
    let of_weight = weight.iter().map(|of| Argument::floats("weight", of));
    let others = of_keys.chain(of_weight);
    assert_together(NAME, Argument::floats("queries", &queries), others);
    let queries = widened(queries);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || num_hiddens == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let keys = repeat_key_heads(widened(keys), heads);
    let mut rows = [queries.unsqueeze_dim(3), keys.unsqueeze_dim(2)];
    let masked = (!mask.is_none()).then(|| {
        // A gradient of 0 is multiplied by the content of a masked pair.
        let zeros = Tensor::zeros(shape, &rows[0].device());
        let masked = fill_masked(zeros, mask, 1.0).greater_elem(0.5);
        let all = [batch, heads, num_queries, num_keys, num_hiddens];
        masked.unsqueeze_dim::<5>(4).expand(all)
    });
    let fill = |tensor: Tensor<5>| match &masked {
        Some(masked) => tensor.expand(masked.dims()).mask_fill(masked.clone(), 0.0),
        None => tensor,
    };
    rows = rows.map(fill);
    let [queries, keys]: [Tensor<5>; 2] = rows;
    let mut terms = fill(term.compose(queries, keys));
    if let Some(weight) = weight {
        terms = terms * widened(weight.reshape([1, 1, 1, 1, num_hiddens]));
    }
    fill_masked(terms.sum_dim(4).squeeze_dim(4), mask, 0.0)
}
