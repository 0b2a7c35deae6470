//! Why a tensor was not read.

use tensor_files::{ElementType, shown};
use thiserror::Error;

/// Why a tensor or a layer could not be read, without the file; [`ImportError`](crate::ImportError) adds it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// There is no such tensor.
    #[error("expected a tensor `{}`, {found}", shown(tensor))]
    Missing {
        /// The full name, which was expected.
        tensor: String,
        /// The nearest names, or what a prefix should have been.
        found: String,
    },
    /// There is a tensor that the module has no place for.
    #[error("expected no tensor `{}`, since {why}", shown(tensor))]
    Unexpected {
        /// Its full name.
        tensor: String,
        /// Why there is no place.
        why: String,
    },
    /// A tensor has another shape than its parameter.
    #[error(
        "`{}`: expected the shape {expected}, got {got:?}{hint}",
        shown(tensor)
    )]
    Shape {
        /// Its full name.
        tensor: String,
        /// The shape of the parameter, or its sizes by name: `[3 * hidden_size, input_size]`.
        expected: String,
        /// The shape in the file.
        got: Vec<usize>,
        /// A guess at the file, or nothing.
        hint: String,
    },
    /// A tensor holds no floats.
    #[error(
        "`{}`: expected floats, got {got:?}: a quantized model is saved dequantized",
        shown(tensor)
    )]
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
        /// The values that were expected, in words.
        expected: String,
        /// The value that came.
        got: String,
    },
    /// A sentence that says what was expected and what came, of all other kinds: a malformed file, a file of another
    /// framework.
    #[error("{0}")]
    Other(String),
}

impl Reason {
    /// The same, and a guess at what was meant.
    pub(crate) fn with_hint(mut self, guess: &str) -> Self {
        match &mut self {
            Self::Missing { found: end, .. }
            | Self::Unexpected { why: end, .. }
            | Self::Shape { hint: end, .. }
            | Self::Field { got: end, .. }
            | Self::Other(end) => end.push_str(guess),
            Self::ElementType { .. } => {}
        }
        self
    }
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
