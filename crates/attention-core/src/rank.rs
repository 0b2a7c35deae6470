//! Tensors with and without a heads axis.

use burn::tensor::Tensor;

/// `[batch, rows, size]` as `[batch, 1, rows, size]`; four axes stay as they are.
pub(crate) fn to_four_axes<const D: usize>(tensor: Tensor<D>) -> Tensor<4> {
    const {
        assert!(
            D == 3 || D == 4,
            "attention takes [batch, rows, size] or [batch, heads, rows, size]"
        )
    };
    let dims = tensor.dims();
    match D {
        3 => tensor.reshape([dims[0], 1, dims[1], dims[2]]),
        _ => tensor.reshape([dims[0], dims[1], dims[2], dims[3]]),
    }
}

/// The inverse of [`to_four_axes`].
pub(crate) fn from_four_axes<const D: usize>(tensor: Tensor<4>) -> Tensor<D> {
    let [batch, heads, rows, size] = tensor.dims();
    let dims: [usize; D] = std::array::from_fn(|axis| match (D, axis) {
        (_, 0) => batch,
        (4, 1) => heads,
        (3, 1) | (4, 2) => rows,
        _ => size,
    });
    tensor.reshape(dims)
}
