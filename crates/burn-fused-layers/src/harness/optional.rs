//! A tensor that may be absent: `Option` does not cross Burn's dispatch (0.22.1).

use burn::backend::{Backend, Dispatch, ExtensionType, tensor::FloatTensor};
use burn::tensor::Tensor;

/// A tensor, or none.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum OptionalTensor<B: Backend> {
    /// None.
    Absent,
    /// One.
    Present {
        /// The tensor, of the shape that the operation says.
        tensor: FloatTensor<B>,
    },
}

impl<B: Backend> OptionalTensor<B> {
    /// The tensor, if there is one.
    pub fn as_option(&self) -> Option<&FloatTensor<B>> {
        match self {
            Self::Absent => None,
            Self::Present { tensor } => Some(tensor),
        }
    }

    /// The tensor, if there is one.
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
    /// A user's tensor, or none.
    pub fn of<const D: usize>(tensor: Option<Tensor<D>>) -> Self {
        tensor.map(Tensor::into_dispatch).into()
    }
}
