//! Lines of text to tokens, and tokens to lines.

mod guess;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
pub use guess::TextKind;

/// The rule that splits a text into tokens.
///
/// ```
/// use attention_seq2seq::Tokenization;
///
/// assert_eq!(Tokenization::Spaces.split("AH B AA"), ["AH", "B", "AA"]);
/// assert_eq!(Tokenization::Spaces.split("10\u{a0}000 km"), ["10\u{a0}000", "km"]);
/// assert_eq!(Tokenization::Chars.split("5 Mai"), ["5", " ", "M", "a", "i"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenization {
    /// Tokens are separated by spaces (U+0020), any number of them: words, phonemes, letters written apart. As in other
    /// tools that count tokens, no other character separates: a no-break space (U+00A0) or an ideographic space
    /// (U+3000) is part of a token.
    Spaces,
    /// Every character (Unicode scalar value) is a token, including the space. A letter written as a base and a
    /// combining accent is two tokens; if that matters, normalize the text first.
    Chars,
}

impl Tokenization {
    /// The tokens of a line.
    pub fn split(self, text: &str) -> Vec<String> {
        self.tokens(text).map(str::to_owned).collect()
    }

    /// The tokens of a line, as parts of it.
    pub(crate) fn tokens(self, text: &str) -> impl Iterator<Item = &str> {
        let (words, chars) = match self {
            Self::Spaces => (text, ""),
            Self::Chars => ("", text),
        };
        let words = words.split(' ').filter(|word| !word.is_empty());
        let places = chars.char_indices();
        let chars = places.map(move |(at, c)| &chars[at..at + c.len_utf8()]);
        words.chain(chars)
    }

    /// The line that these tokens make: the inverse of [`split`](Self::split), except for the number of spaces in
    /// [`Spaces`](Self::Spaces).
    pub fn join(self, tokens: &[String]) -> String {
        match self {
            Self::Spaces => tokens.join(" "),
            Self::Chars => tokens.concat(),
        }
    }
}

impl fmt::Display for Tokenization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Spaces => "spaces",
            Self::Chars => "chars",
        })
    }
}

impl FromStr for Tokenization {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] for anything but `spaces` and `chars`.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "spaces" => Ok(Self::Spaces),
            "chars" => Ok(Self::Chars),
            _ => {
                let found = format!("{name:?}");
                Err(Error::config("tokens", "spaces or chars", found))
            }
        }
    }
}

/// The white space that is not part of a text when it surrounds it. Every other character is text.
const AROUND: [char; 4] = [' ', '\t', '\r', '\n'];

/// A text without the white space around it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(AROUND)
}

/// Bytes of a text without the white space after it.
pub(crate) fn trim_end(text: &[u8]) -> &[u8] {
    let is_text = |&byte: &u8| !AROUND.contains(&char::from(byte));
    let end = text.iter().rposition(is_text).map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_and_join_are_inverse() {
        for (tokenization, text) in [
            (Tokenization::Spaces, "AH B AA"),
            (Tokenization::Chars, " 5 août  1994 "),
        ] {
            assert_eq!(tokenization.join(&tokenization.split(text)), text);
        }
        assert_eq!(Tokenization::Spaces.split("  a   b "), ["a", "b"]);
        assert_eq!(Tokenization::Chars.split("é 1"), ["é", " ", "1"]);
        assert!(Tokenization::Spaces.split(" ").is_empty());
        assert!(Tokenization::Chars.split("").is_empty());
    }

    /// White space that is not ASCII's, or not a space.
    const OTHERS: [char; 10] = [
        '\t', '\u{b}', '\u{c}', '\u{85}', '\u{a0}', '\u{2009}', '\u{2028}', '\u{2029}', '\u{3000}',
        '\u{feff}',
    ];

    #[test]
    fn spaces_tabs_and_line_ends_are_no_part_of_a_text() {
        let around = " \t\r\n ";
        assert_eq!(trim(&format!("{around}a b{around}")), "a b");
        assert_eq!(trim(around), "");
        assert_eq!(trim_end(b"\t\n\x0c\r\n "), b"\t\n\x0c");
        assert_eq!(trim_end(around.as_bytes()), b"");
        for other in OTHERS.into_iter().filter(|&other| other != '\t') {
            let text = format!("{other}a{other}");
            assert_eq!(trim(&text), text);
            assert_eq!(trim_end(text.as_bytes()), text.as_bytes());
        }
    }
}
