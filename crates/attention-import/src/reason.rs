//! Why a tensor was not read.

use tensor_files::ElementType;
use thiserror::Error;

/// Why a tensor or a layer could not be read, without the file; [`ImportError`](crate::ImportError) adds it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// There is no such tensor.
    #[error("expected a tensor `{tensor}`, {found}")]
    Missing {
        /// The full name, which was expected.
        tensor: String,
        /// The nearest names, or what a prefix should have been.
        found: String,
    },
    /// There is a tensor that the module has no place for.
    #[error("expected no tensor `{tensor}`, since {why}")]
    Unexpected {
        /// Its full name.
        tensor: String,
        /// Why there is no place.
        why: String,
    },
    /// A tensor has another shape than its parameter.
    #[error("`{tensor}`: expected the shape {expected:?}, got {got:?}")]
    Shape {
        /// Its full name.
        tensor: String,
        /// The shape of the parameter.
        expected: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },
    /// A tensor holds no floats.
    #[error("`{tensor}`: expected floats, got {got:?}: a quantized model is saved dequantized")]
    ElementType {
        /// Its full name.
        tensor: String,
        /// The type of its elements.
        got: ElementType,
    },
    /// A field of a file of settings is not there, or does not fit.
    #[error("`{field}`: expected {expected}, got {got}")]
    Field {
        /// Its name, after the fields that hold it.
        field: String,
        /// What was expected.
        expected: String,
        /// What came.
        got: String,
    },
    /// Another one, as a sentence that says what was expected and what came: a malformed file, a setting that is not
    /// known.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Reason {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl From<&str> for Reason {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}
