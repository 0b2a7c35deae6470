//! Keys and values that are shared by several heads of queries.

use burn::tensor::Tensor;

use crate::rank::reshape;

/// # Panics
/// If `key_heads` does not divide `heads`.
pub(super) fn assert_divides(operation: &str, key_heads: usize, heads: usize) {
    assert!(
        key_heads == heads || key_heads > 0 && heads.is_multiple_of(key_heads),
        "{operation}: heads of keys expected to divide those of queries, {heads}, got {key_heads}"
    );
}

/// Each of `[batch, key_heads, keys, size]` as often as heads of queries read it, side by side: for scores that know
/// nothing of shared keys.
pub(crate) fn repeat_key_heads(tensor: Tensor<4>, heads: usize) -> Tensor<4> {
    let [batch, key_heads, keys, size] = tensor.dims();
    if key_heads == heads {
        return tensor;
    }
    if key_heads == 1 {
        return tensor.expand([batch, heads, keys, size]);
    }
    let tensor = reshape(tensor, [batch, key_heads, 1, keys, size]);
    let tensor = tensor.expand([batch, key_heads, heads / key_heads, keys, size]);
    reshape(tensor, [batch, heads, keys, size])
}
