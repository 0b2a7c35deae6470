//! A tensor that may be absent: `Option` does not cross Burn's dispatch (0.22.1).

use burn::backend::{Backend, Dispatch, ExtensionType, tensor::FloatTensor};
use burn::tensor::Tensor;

/// A tensor, or no tensor.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum OptionalTensor<B: Backend> {
    /// No tensor.
    Absent,
    /// A tensor.
    Present {
        /// The tensor, with the shape that the operation requires.
        tensor: FloatTensor<B>,
    },
}

impl<B: Backend> OptionalTensor<B> {
    /// The tensor, if present.
    pub fn as_option(&self) -> Option<&FloatTensor<B>> {
        match self {
            Self::Absent => None,
            Self::Present { tensor } => Some(tensor),
        }
    }

    /// The tensor, if present.
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Absent => None,
            Self::Present { tensor } => Some(tensor),
        }
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for OptionalTensor<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        match tensor {
            Some(tensor) => Self::Present { tensor },
            None => Self::Absent,
        }
    }
}

impl OptionalTensor<Dispatch> {
    /// A user's tensor, or no tensor.
    pub fn of<const D: usize>(tensor: Option<Tensor<D>>) -> Self {
        tensor.map(Tensor::into_dispatch).into()
    }
}
