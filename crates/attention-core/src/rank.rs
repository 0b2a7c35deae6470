//! Tensors with and without a heads axis.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Tensor;
use burn::tensor::kind::Basic;

/// `[batch, rows, size]` as `[batch, 1, rows, size]`; four axes stay as they are.
pub(crate) fn to_four_axes<const D: usize>(tensor: Tensor<D>) -> Tensor<4> {
    const {
        assert!(
            D == 3 || D == 4,
            "attention takes [batch, rows, size] or [batch, heads, rows, size]"
        )
    };
    if D == 4 {
        return Tensor::from_dispatch(tensor.into_dispatch());
    }
    let dims = tensor.dims();
    reshape_floats(tensor, [dims[0], 1, dims[1], dims[2]])
}

/// The inverse of [`to_four_axes`].
pub(crate) fn from_four_axes<const D: usize>(tensor: Tensor<4>) -> Tensor<D> {
    if D == 4 {
        return Tensor::from_dispatch(tensor.into_dispatch());
    }
    let [batch, heads, rows, size] = tensor.dims();
    let dims: [usize; D] = std::array::from_fn(|axis| match (D, axis) {
        (_, 0) => batch,
        (4, 1) => heads,
        (3, 1) | (4, 2) => rows,
        _ => size,
    });
    reshape_floats(tensor, dims)
}

/// [`reshape`], without Burn's checks, which take as long as a small call: the number of elements is the same.
fn reshape_floats<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    dims: [usize; E],
) -> Tensor<E> {
    if dims.contains(&0) {
        return reshape(tensor, dims);
    }
    Tensor::from_dispatch(Dispatch::float_reshape(tensor.into_dispatch(), dims.into()))
}

/// Repeats every example of `[batch, heads, rows, size]` `times` times, the copies next to each other.
pub(crate) fn repeat_examples<K: Basic>(tensor: Tensor<4, K>, times: usize) -> Tensor<4, K> {
    let [batch, heads, rows, size] = tensor.dims();
    let copies = reshape(tensor, [batch, 1, heads, rows, size]).repeat_dim(1, times);
    reshape(copies, [batch * times, heads, rows, size])
}

/// `tensor.reshape(dims)`, where 0 is a size; in Burn's `reshape` it means "as before".
pub(crate) fn reshape<const D: usize, const E: usize, K: Basic>(
    tensor: Tensor<D, K>,
    dims: [usize; E],
) -> Tensor<E, K> {
    if dims.contains(&0) {
        Tensor::empty(dims, (&tensor.device(), tensor.dtype()))
    } else {
        tensor.reshape(dims)
    }
}

/// `tensor.expand(dims)`, which also handles axes of size 0.
pub(crate) fn expand<const D: usize>(tensor: Tensor<D>, dims: [usize; D]) -> Tensor<D> {
    if dims.contains(&0) {
        Tensor::empty(dims, (&tensor.device(), tensor.dtype()))
    } else {
        tensor.expand(dims)
    }
}

/// Queries, keys and values with four axes and the same number of examples: an input with a single example is expanded,
/// as a view.
pub(crate) fn in_one_batch<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
) -> [Tensor<4>; 3] {
    let inputs = [
        to_four_axes(queries),
        to_four_axes(keys),
        to_four_axes(values),
    ];
    let batches = inputs.each_ref().map(|input| input.dims()[0]);
    match batches.into_iter().find(|batch| *batch != batches[0]) {
        None => inputs,
        Some(other) => {
            let batch = if batches[0] == 1 { other } else { batches[0] };
            inputs.map(|input| {
                let [own, heads, rows, size] = input.dims();
                match own {
                    1 => expand(input, [batch, heads, rows, size]),
                    _ => input,
                }
            })
        }
    }
}
