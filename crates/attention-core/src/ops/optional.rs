//! Tensors that may be absent.

use burn::backend::{Backend, ExtensionType, tensor::FloatTensor};
use burn::tensor::Tensor;

/// A tensor, or none: what an operation of the door takes beside those that it always has.
#[derive(Clone, Debug, ExtensionType)]
pub enum OptionalTensor<B: Backend> {
    /// None.
    Absent,
    /// One.
    Present {
        /// Of the shape that the operation says.
        tensor: FloatTensor<B>,
    },
}

impl<B: Backend> OptionalTensor<B> {
    pub(super) fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Absent => None,
            Self::Present { tensor } => Some(tensor),
        }
    }
}

impl<const D: usize> From<Option<Tensor<D>>> for OptionalTensor<burn::backend::Dispatch> {
    fn from(tensor: Option<Tensor<D>>) -> Self {
        match tensor {
            Some(tensor) => Self::Present {
                tensor: tensor.into_dispatch(),
            },
            None => Self::Absent,
        }
    }
}
