//! Unicode's normal forms.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfd_quick};

/// Unicode's normal form for the texts of a model (Unicode Standard Annex 15).
///
/// A letter with an accent is one character or two, depending on the keyboard, editor or file system that wrote it.
/// Normalized, it has the same tokens in either case. Compatibility forms (NFKC, NFKD) are not offered: they change the
/// content of a text, such as `x²` to `x2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalization {
    /// Texts are read as they are.
    None,
    /// A letter and its accent are one character, if there is one: the form of most texts.
    #[default]
    Nfc,
    /// A letter and its accent are two characters, a Korean syllable is its letters; outputs are written in NFC.
    Nfd,
}

impl Normalization {
    /// No normal form, the default for settings that were saved before there were normal forms.
    pub(crate) fn none() -> Self {
        Self::None
    }

    /// The form in which a model learns more about letters from the same texts: [`Nfd`](Self::Nfd) if they have at
    /// least three times as many distinct characters in NFC as in NFD, as in a syllabary like Hangul, else
    /// [`Nfc`](Self::Nfc).
    pub fn guess<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut whole, mut parts) = (BTreeSet::new(), BTreeSet::new());
        for text in texts {
            whole.extend(text.nfc());
            parts.extend(text.nfd());
        }
        match whole.len() >= 3 * parts.len() && !parts.is_empty() {
            true => Self::Nfd,
            false => Self::Nfc,
        }
    }

    /// A text in this form.
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        let is_in_form = match self {
            Self::None => IsNormalized::Yes,
            Self::Nfc => is_nfc_quick(text.chars()),
            Self::Nfd => is_nfd_quick(text.chars()),
        };
        match self {
            _ if is_in_form == IsNormalized::Yes => Cow::Borrowed(text),
            Self::Nfd => Cow::Owned(text.nfd().collect()),
            Self::None | Self::Nfc => Cow::Owned(text.nfc().collect()),
        }
    }
}

/// The name on the command line and in saved settings.
impl fmt::Display for Normalization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
