//! The reasons why a tensor was not read.

use tensor_files::{ElementType, shown};
use thiserror::Error;

/// Why a tensor or a layer could not be read, without the file, which [`ImportError`](crate::ImportError) adds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// A tensor does not exist.
    #[error("expected a tensor `{}`, {found}", shown(tensor))]
    Missing {
        /// The expected full name.
        tensor: String,
        /// The nearest names, or the probably intended prefix.
        found: String,
    },
    /// The module has no place for a tensor.
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
        /// A guess at the cause, or empty.
        hint: String,
    },
    /// A tensor does not contain floats.
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
    /// A field of a settings file is missing, or does not fit.
    #[error("`{field}`: expected {expected}, got {got}")]
    Field {
        /// Its name, after the names of the enclosing fields.
        field: String,
        /// The expected values, in words.
        expected: String,
        /// The value found.
        got: String,
    },
    /// Any other reason (a malformed file, a file of another framework), as a sentence that says what was expected and
    /// what came.
    #[error("{0}")]
    Other(String),
}

impl Reason {
    /// This reason with a guess at what was meant.
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
