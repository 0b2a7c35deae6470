//! Attention, fused: from projected queries and a memory to the context.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::backend::OptionalTensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};

use super::modifiers::Modifiers;
use super::sizes::Sizes;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::ops::{
    AdditiveAttentionInputs, AttentionOps, DotProductAttentionInputs, PackAdditiveKeysInputs,
};

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, modified, and dropout on the weights.
/// `sizes` were found to fit.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys of the memory `[batch, key_heads, keys, num_hiddens]`,
///   weight `[num_hiddens]`
/// - result `[batch, heads, queries, value_size]`
///
/// # Panics
/// If weight, modifiers or mask do not fit, or the dropout is not in `[0, 1)`.
pub(crate) fn attend_additive(
    queries: Tensor<4>,
    memory: &Memory,
    sizes: Sizes,
    weight: Tensor<1>,
    modifiers: Modifiers,
    dropout: f64,
) -> Tensor<4> {
    const NAME: &str = "additive_attention";
    let num_hiddens = sizes.compared(&queries, memory);
    assert_shape!(weight, [num_hiddens]);
    let others = [Argument::floats("weight", &weight)];
    assert_together(NAME, Argument::floats("queries", &queries), others);
    assert_probability(NAME, dropout);
    if sizes.has_no_pairs() {
        return sizes.zeros(memory);
    }
    if num_hiddens == 0 {
        // All scores are 0, as dot products are.
        return attend_dot_product(queries, memory, sizes, 1.0, modifiers, dropout);
    }
    let modifiers = modifiers.checked(NAME, sizes.scores(), &queries);
    let inputs = AdditiveAttentionInputs {
        mask: memory.mask.resolve(sizes.scores(), &queries.device()),
        queries: queries.into_dispatch(),
        keys: memory.read_keys().into_dispatch(),
        values: memory.read_values().into_dispatch(),
        weight: weight.into_dispatch(),
        packed_keys: OptionalTensor::of(memory.packed_keys()),
        modifiers,
        dropout,
        shared: memory.shared_gradients(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_attention(inputs))
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]`, modified, and dropout on the weights. `sizes` were found
/// to fit.
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`, keys of the memory `[batch, key_heads, keys, size]`
/// - result `[batch, heads, queries, value_size]`
///
/// # Panics
/// If modifiers or mask do not fit, the scale is not finite, or the dropout is not in `[0, 1)`.
pub(crate) fn attend_dot_product(
    queries: Tensor<4>,
    memory: &Memory,
    sizes: Sizes,
    scale: f64,
    modifiers: Modifiers,
    dropout: f64,
) -> Tensor<4> {
    const NAME: &str = "dot_product_attention";
    assert!(
        scale.is_finite(),
        "{NAME}: scale expected to be finite, got {scale}"
    );
    let size = sizes.compared(&queries, memory);
    assert_probability(NAME, dropout);
    if sizes.has_no_pairs() {
        return sizes.zeros(memory);
    }
    let modifiers = modifiers.checked(NAME, sizes.scores(), &queries);
    let mask = memory.mask.resolve(sizes.scores(), &queries.device());
    // Products of vectors without elements are 0, as of a single 0.
    let with_elements = |tensor: Tensor<4>| {
        if size > 0 {
            return tensor;
        }
        let [batch, heads, rows, _] = tensor.dims();
        Tensor::zeros([batch, heads, rows, 1], (&tensor.device(), tensor.dtype()))
    };
    let inputs = DotProductAttentionInputs {
        queries: with_elements(queries).into_dispatch(),
        keys: with_elements(memory.read_keys()).into_dispatch(),
        values: memory.read_values().into_dispatch(),
        modifiers,
        mask,
        scale,
        dropout,
        shared: memory.shared_gradients(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::dot_product_attention(inputs))
}

/// The keys as the kernel of [`attend_additive`] reads them, made once for many calls. `mask` is applied as far as it
/// needs no positions of queries. `None` if there are no elements.
///
/// # Shapes
/// - keys `[batch, key_heads, keys, num_hiddens]`, result `[batch, ..]`
pub(crate) fn pack_additive_keys(
    keys: Tensor<4>,
    mask: &Mask,
    [heads, num_queries]: [usize; 2],
) -> Option<Tensor<4>> {
    let [batch, _, num_keys, _] = keys.dims();
    if keys.dims().contains(&0) || heads * num_queries == 0 {
        return None;
    }
    let inputs = PackAdditiveKeysInputs {
        mask: mask.resolve([batch, heads, num_queries, num_keys], &keys.device()),
        keys: keys.into_dispatch(),
        num_queries,
    };
    let packed = <Dispatch as AttentionOps>::pack_additive_keys(inputs);
    Some(Tensor::from_dispatch(packed))
}

fn assert_probability(operation: &str, dropout: f64) {
    assert!(
        (0.0..1.0).contains(&dropout),
        "{operation}: dropout expected in [0, 1), got {dropout}"
    );
}
