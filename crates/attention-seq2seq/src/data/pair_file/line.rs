//! A line of a file of pairs.

use std::borrow::Cow;

use crate::text::tokens::trim;

/// The texts of a pair.
pub(super) struct Texts<'a> {
    pub(super) source: Cow<'a, str>,
    pub(super) target: Cow<'a, str>,
}

impl Texts<'_> {
    pub(super) fn into_owned(self) -> Texts<'static> {
        Texts {
            source: Cow::Owned(self.source.into_owned()),
            target: Cow::Owned(self.target.into_owned()),
        }
    }
}

/// The fault of a line, without its number.
pub(super) struct LineError {
    pub(super) expected: String,
    pub(super) found: String,
}

impl LineError {
    pub(super) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The texts of a line, `None` if it is a comment, or its fault.
pub(super) type LineResult<T> = std::result::Result<T, LineError>;

/// Refuses an empty line.
pub(super) fn check_not_empty(line: &str) -> LineResult<()> {
    match trim(line) {
        "" => Err(LineError::new("a pair", "an empty line")),
        _ => Ok(()),
    }
}

/// Refuses control characters in a text; `place` says where the text stands.
pub(super) fn check_characters(text: &str, place: &str) -> LineResult<()> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(control) => Err(LineError::new(
            "text without control characters",
            format!("U+{:04X} {place}", u32::from(control)),
        )),
    }
}
