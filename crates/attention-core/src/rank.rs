//! Tensors with and without a heads axis.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::checks::Argument;

use crate::ops::sizes_with_heads;

/// Queries, keys or values, `[batch, heads, rows, size]`. A single head may have no axis: operations read both.
#[derive(Clone, Debug)]
pub(crate) struct Sequences {
    tensor: FloatTensor<Dispatch>,
    axes: usize,
    dims: [usize; 4],
}

impl Sequences {
    /// A tensor `[batch, rows, size]` or `[batch, heads, rows, size]`.
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        const {
            assert!(
                D == 3 || D == 4,
                "attention takes [batch, rows, size] or [batch, heads, rows, size]"
            )
        };
        Self::of_dispatch(tensor.into_dispatch())
    }

    /// The result of an operation, with three or four axes.
    pub(crate) fn of_dispatch(tensor: FloatTensor<Dispatch>) -> Self {
        let shape = tensor.shape();
        Self {
            tensor,
            axes: shape.num_dims(),
            dims: sizes_with_heads(&shape),
        }
    }

    /// `[batch, heads, rows, size]`
    pub(crate) fn dims(&self) -> [usize; 4] {
        self.dims
    }

    pub(crate) fn device(&self) -> Device {
        Device::new(self.tensor.device())
    }

    pub(crate) fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// These floats as an argument of an operation.
    pub(crate) fn argument<'a>(&self, name: &'a str) -> Argument<'a> {
        Argument::of(name, self.device(), self.dtype())
    }

    pub(crate) fn as_dispatch(&self) -> &FloatTensor<Dispatch> {
        &self.tensor
    }

    pub(crate) fn into_dispatch(self) -> FloatTensor<Dispatch> {
        self.tensor
    }

    /// The tensor with three axes or with four.
    ///
    /// # Panics
    /// If there are several heads for three axes.
    pub(crate) fn into_tensor<const D: usize>(self) -> Tensor<D> {
        let Self { tensor, axes, dims } = self;
        if axes == D {
            return Tensor::from_dispatch(tensor);
        }
        let [batch, heads, rows, size] = dims;
        assert!(
            D == 4 || heads == 1,
            "three axes expected of one head, got {heads}"
        );
        let dims: [usize; D] = std::array::from_fn(|axis| match (D, axis) {
            (_, 0) => batch,
            (4, 1) => heads,
            (3, 1) | (4, 2) => rows,
            _ => size,
        });
        reshape_floats(tensor, dims)
    }

    /// `change` of the tensor with four axes, on a condition; otherwise these.
    pub(crate) fn changed_if(
        self,
        condition: bool,
        change: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Self {
        if condition {
            Self::new(change(self.into_tensor()))
        } else {
            self
        }
    }

    /// A copy with four axes.
    pub(crate) fn to_tensor(&self) -> Tensor<4> {
        self.clone().into_tensor()
    }
}

impl From<Tensor<4>> for Sequences {
    fn from(tensor: Tensor<4>) -> Self {
        Self::new(tensor)
    }
}

/// `[batch, rows, size]` as `[batch, 1, rows, size]`; four axes stay as they are.
pub(crate) fn to_four_axes<const D: usize>(tensor: Tensor<D>) -> Tensor<4> {
    Sequences::new(tensor).into_tensor()
}

/// The inverse of [`to_four_axes`].
pub(crate) fn from_four_axes<const D: usize>(tensor: Tensor<4>) -> Tensor<D> {
    Sequences::new(tensor).into_tensor()
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

/// [`reshape`] of floats to as many elements, without Burn's checks, which take as long as a small call.
pub(crate) fn reshape_floats<const E: usize>(
    tensor: FloatTensor<Dispatch>,
    dims: [usize; E],
) -> Tensor<E> {
    if dims.contains(&0) {
        let options = (&Device::new(tensor.device()), tensor.dtype());
        return Tensor::empty(dims, options);
    }
    Tensor::from_dispatch(Dispatch::float_reshape(tensor, dims.into()))
}

/// `tensor.expand(dims)`, which also handles axes of size 0.
pub(crate) fn expand<const D: usize>(tensor: Tensor<D>, dims: [usize; D]) -> Tensor<D> {
    if dims.contains(&0) {
        Tensor::empty(dims, (&tensor.device(), tensor.dtype()))
    } else {
        tensor.expand(dims)
    }
}

/// Queries, keys and values with the same number of examples: an input with a single example is expanded, as a view.
pub(crate) fn in_one_batch<const D: usize>(
    queries: Tensor<D>,
    keys: Tensor<D>,
    values: Tensor<D>,
) -> [Sequences; 3] {
    let inputs = [queries, keys, values].map(Sequences::new);
    let batches = inputs.each_ref().map(|input| input.dims()[0]);
    match batches.into_iter().find(|batch| *batch != batches[0]) {
        None => inputs,
        Some(other) => {
            let batch = if batches[0] == 1 { other } else { batches[0] };
            inputs.map(|input| {
                let [own, heads, rows, size] = input.dims();
                match own {
                    1 => expand(input.into_tensor(), [batch, heads, rows, size]).into(),
                    _ => input,
                }
            })
        }
    }
}
