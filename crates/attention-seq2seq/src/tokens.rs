//! How a line of text becomes tokens, and tokens a line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Where one token ends and the next begins.
///
/// ```
/// use attention_seq2seq::Tokenization;
///
/// assert_eq!(Tokenization::Spaces.split("AH B AA"), ["AH", "B", "AA"]);
/// assert_eq!(Tokenization::Chars.split("5 Mai"), ["5", " ", "M", "a", "i"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenization {
    /// Tokens are separated by white space: words, phonemes, letters written apart.
    Spaces,
    /// Every character (Unicode scalar value) is a token, the space among them. A letter written as a base and a
    /// combining accent is two tokens; normalize the text first where that matters.
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
        let chars = chars
            .char_indices()
            .map(move |(at, c)| &chars[at..at + c.len_utf8()]);
        words.split_whitespace().chain(chars)
    }

    /// The line that these tokens make: the inverse of [`split`](Self::split), but for the amount of white space in
    /// [`Spaces`](Self::Spaces).
    pub fn join(self, tokens: &[String]) -> String {
        match self {
            Self::Spaces => tokens.join(" "),
            Self::Chars => tokens.concat(),
        }
    }

    /// Guesses from a sample: [`Spaces`](Self::Spaces) if at least half of the lines hold a space between two other
    /// characters, else [`Chars`](Self::Chars).
    ///
    /// Empty lines do not count; without any other line the guess is `Chars`. It is wrong for text that is meant to be
    /// split into characters but has spaces, such as dates: the user can set it.
    pub(crate) fn guess<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut spaced, mut all) = (0, 0);
        for line in lines
            .into_iter()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            all += 1;
            spaced += usize::from(line.contains(char::is_whitespace));
        }
        if all > 0 && 2 * spaced >= all {
            Self::Spaces
        } else {
            Self::Chars
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
            _ => Err(Error::Config {
                what: "tokens".to_owned(),
                expected: "spaces or chars".to_owned(),
                found: format!("{name:?}"),
            }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
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
        assert_eq!(
            Tokenization::Spaces.split("  a \t b\u{a0}c "),
            ["a", "b", "c"]
        );
        assert_eq!(Tokenization::Chars.split("é 1"), ["é", " ", "1"]);
        assert!(
            Tokenization::Spaces.split(" ").is_empty() && Tokenization::Chars.split("").is_empty()
        );
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for tokenization in [Tokenization::Spaces, Tokenization::Chars] {
            assert_eq!(
                tokenization.to_string().parse::<Tokenization>().unwrap(),
                tokenization
            );
            let json = serde_json::to_string(&tokenization).unwrap();
            assert_eq!(json, format!("\"{tokenization}\""));
        }
        assert_eq!(
            "words".parse::<Tokenization>().unwrap_err().to_string(),
            "tokens: expected spaces or chars, found \"words\""
        );
    }

    #[test]
    fn a_guess_needs_half_of_the_lines() {
        assert_eq!(Tokenization::guess(["a b", "abc"]), Tokenization::Spaces);
        assert_eq!(
            Tokenization::guess(["a b", "abc", "d"]),
            Tokenization::Chars
        );
        assert_eq!(Tokenization::guess(["a b", "", " "]), Tokenization::Spaces);
        assert_eq!(Tokenization::guess([" abc "]), Tokenization::Chars);
        assert_eq!(Tokenization::guess([]), Tokenization::Chars);
    }
}
