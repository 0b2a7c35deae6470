//! Keys and values that are shared by several heads of queries.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ops::repeated;

/// # Panics
/// If `key_heads` does not divide `heads`.
pub(crate) fn assert_divides(operation: &str, key_heads: usize, heads: usize) {
    assert!(
        key_heads == heads || key_heads > 0 && heads.is_multiple_of(key_heads),
        "{operation}: heads of keys expected to divide those of queries, {heads}, got {key_heads}"
    );
}

/// A bias of key heads, `[_, key_heads, ..]`, repeated for `heads` heads of queries; a single head serves all.
pub(crate) fn per_head(bias: Tensor<4>, heads: usize) -> Tensor<4> {
    let [_, bias_heads, ..] = bias.dims();
    if bias_heads == 1 {
        bias
    } else {
        repeat_key_heads(bias, heads)
    }
}

/// Keys `[batch, key_heads, keys, size]`, each head repeated for every head of queries that reads it: for scores that
/// do not handle shared keys.
pub(crate) fn repeat_key_heads(tensor: Tensor<4>, heads: usize) -> Tensor<4> {
    let [batch, key_heads, keys, size] = tensor.dims();
    if key_heads != heads && tensor.dims().contains(&0) {
        let options = (&tensor.device(), tensor.dtype());
        return Tensor::empty([batch, heads, keys, size], options);
    }
    Tensor::from_dispatch(repeated::<Dispatch>(tensor.into_dispatch(), heads))
}
