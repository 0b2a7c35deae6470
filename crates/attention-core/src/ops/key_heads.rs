//! Heads: keys and values that are shared by several heads of queries, and a single head without an axis.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

/// `[batch, heads, rows, size]`; of three axes, with one head.
pub(crate) fn sizes_with_heads(shape: &Shape) -> [usize; 4] {
    match shape[..] {
        [batch, rows, size] => [batch, 1, rows, size],
        _ => shape.dims(),
    }
}

/// Queries, keys, values or contexts with the heads axis.
pub(super) fn with_heads<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let shape = tensor.shape();
    if shape.num_dims() == 4 {
        return tensor;
    }
    B::float_reshape(tensor, sizes_with_heads(&shape).into())
}

/// The inverse of [`with_heads`]: a result or gradient with the axes of `shape`.
pub(super) fn with_axes_of<B: Backend>(tensor: FloatTensor<B>, shape: Shape) -> FloatTensor<B> {
    if tensor.shape().num_dims() == shape.num_dims() {
        return tensor;
    }
    B::float_reshape(tensor, shape)
}

/// Keys `[batch, key_heads, keys, size]`, each head repeated for every query head that reads it; for the definitions.
pub(crate) fn repeated<B: Backend>(tensor: FloatTensor<B>, heads: usize) -> FloatTensor<B> {
    let [batch, key_heads, keys, size] = tensor.shape().dims();
    if key_heads == heads {
        return tensor;
    }
    if key_heads == 1 {
        return B::float_expand(tensor, [batch, heads, keys, size].into());
    }
    let group = heads / key_heads;
    let tensor = B::float_reshape(tensor, [batch, key_heads, 1, keys, size].into());
    let tensor = B::float_expand(tensor, [batch, key_heads, group, keys, size].into());
    B::float_reshape(tensor, [batch, heads, keys, size].into())
}
