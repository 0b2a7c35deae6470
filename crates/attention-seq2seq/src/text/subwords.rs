//! Subwords: pieces of words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

#[cfg(feature = "subwords")]
mod bpe;
#[cfg(not(feature = "subwords"))]
mod missing;

#[cfg(feature = "subwords")]
use bpe::Pieces;
#[cfg(not(feature = "subwords"))]
use missing::Pieces;

/// The mark at the beginning of a word, which stands for the space before it.
const WORD: char = '▁';

/// The pieces into which the words of one side's texts are divided: frequent words stay whole, rare ones are split, so
/// that a vocabulary of a few thousand pieces covers all of them (Sennrich, Haddow and Birch 2016, "Neural Machine
/// Translation of Rare Words with Subword Units").
///
/// They are learned from texts by byte-pair encoding, and saved with the model. The crate `tokenizers` does both:
/// without the feature `subwords` they cannot be learned, and a model with subwords cannot be opened.
///
/// ```
/// # #[cfg(feature = "subwords")] {
/// use attention_seq2seq::text::Subwords;
///
/// let subwords = Subwords::learn(["low lower lowest", "new newer newest"], 16)?;
/// let pieces = subwords.split("lowest news");
/// assert_eq!(pieces.concat(), "▁lowest▁news");
/// assert_eq!(subwords.join(&pieces), "lowest news");
/// # }
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subwords {
    /// The requested largest number of pieces.
    count: usize,
    pieces: Pieces,
}

impl Subwords {
    /// The smallest number of pieces that can be requested.
    const FEWEST: usize = 2;

    /// The largest number.
    const MOST: usize = 1 << 20;

    /// Learns at most `count` pieces, including the characters of the texts. Spaces (U+0020) separate the words of a
    /// text; the pieces have the mark `▁` (U+2581) instead, and a `▁` in a text itself is read back as a space.
    ///
    /// # Errors
    /// [`Error::Config`] if the texts have more than `count` distinct characters, if `count` is more than a million,
    /// and without the feature `subwords`. From then on, the crate `tokenizers` uses one thread in the whole process.
    pub fn learn<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, count: usize) -> Result<Self> {
        let what = "the number of subwords";
        if !(Self::FEWEST..=Self::MOST).contains(&count) {
            let expected = format!("{} to {}", Self::FEWEST, Self::MOST);
            return Err(Error::config(what, &expected, count));
        }
        let mut all = Vec::new();
        for text in texts {
            all.extend(words(text.as_ref()));
        }
        let pieces = Pieces::learn(&all, count)?;
        let found = pieces.len();
        if found > count {
            let expected = format!("at least {found}, the number of different characters");
            return Err(Error::config(what, &expected, count));
        }
        Ok(Self { count, pieces })
    }

    /// The requested largest number of pieces.
    pub fn count(&self) -> usize {
        self.count
    }

    /// All pieces. Some may occur in no text that they were learned from, because longer ones took their place.
    pub(crate) fn all(&self) -> Vec<String> {
        self.pieces.all()
    }

    /// The pieces of a text. A character that occurs in no text that the pieces were learned from becomes a piece of
    /// its own, unknown to every model.
    pub fn split(&self, text: &str) -> Vec<String> {
        let pieces = words(text).flat_map(|word| self.pieces.split(&word));
        pieces.collect()
    }

    /// The text that pieces make: the inverse of [`split`](Self::split), except for spaces around a text and repeated
    /// spaces.
    pub fn join<T: AsRef<str>>(&self, pieces: &[T]) -> String {
        let text: String = pieces.iter().map(AsRef::as_ref).collect();
        let text = text.replace(WORD, " ");
        text.strip_prefix(' ').map(str::to_owned).unwrap_or(text)
    }
}

/// The words of a text, each with the mark at its beginning.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(' ').filter(|word| !word.is_empty());
    words.map(|word| format!("{WORD}{word}"))
}

impl fmt::Debug for Subwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subwords")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "subwords"))]
mod tests {
    use super::*;

    const TEXTS: [&str; 4] = [
        "low low low",
        "lower lowest",
        "newest newest",
        "wider  widest ",
    ];

    #[test]
    fn pieces_are_the_pairs_that_are_frequent() {
        // 10 characters and the mark; the merges are by hand: es, est, lo, low, ▁low.
        let characters = Subwords::learn(TEXTS, 11).unwrap();
        let expected = ["▁", "l", "o", "w", "e", "s", "t"];
        assert_eq!(characters.split("lowest"), expected);
        let subwords = Subwords::learn(TEXTS, 16).unwrap();
        assert_eq!(subwords.split("lowest"), ["▁low", "est"]);
        assert_eq!(subwords.split("widow"), ["▁", "w", "i", "d", "o", "w"]);
    }

    #[test]
    fn texts_are_read_back() {
        let subwords = Subwords::learn(TEXTS, 40).unwrap();
        for text in ["lowest", "new low", "wide lodestone", ""] {
            let pieces = subwords.split(text);
            assert_eq!(subwords.join(&pieces), text);
            let are_words = pieces.iter().all(|piece| !piece.contains(' '));
            assert!(are_words, "{pieces:?}");
        }
        assert_eq!(subwords.join(&subwords.split("  low   new ")), "low new");
        // Pieces without a beginning, as a search may choose them.
        assert_eq!(subwords.join(&["est", "▁low"]), "est low");
    }

    #[test]
    fn an_unknown_character_is_a_piece_of_its_own() {
        let subwords = Subwords::learn(TEXTS, 16).unwrap();
        assert_eq!(subwords.split("löw<unk>x")[1..4], ["l", "ö", "w"]);
        let pieces = subwords.split("日本 low");
        assert_eq!(pieces, ["▁", "日", "本", "▁low"]);
        assert_eq!(subwords.join(&pieces), "日本 low");
    }

    #[test]
    fn subwords_are_saved_whole() {
        let subwords = Subwords::learn(TEXTS, 20).unwrap();
        let json = serde_json::to_string(&subwords).unwrap();
        let loaded: Subwords = serde_json::from_str(&json).unwrap();
        assert_eq!(loaded, subwords);
        assert_eq!(loaded.split("lowest newer"), subwords.split("lowest newer"));
        assert_eq!(serde_json::to_string(&loaded).unwrap(), json);
        // The same texts, the same pieces.
        assert_eq!(Subwords::learn(TEXTS, 20).unwrap(), subwords);
        assert_ne!(Subwords::learn(TEXTS, 19).unwrap(), subwords);
        let damaged = json.replacen("\"merges\"", "\"merge\"", 1);
        assert!(serde_json::from_str::<Subwords>(&damaged).is_err());
    }

    #[test]
    fn a_number_that_characters_alone_exceed_is_an_error() {
        for (count, expected) in [
            (0, "the number of subwords: expected 2 to 1048576, found 0"),
            (
                2_000_000,
                "the number of subwords: expected 2 to 1048576, found 2000000",
            ),
            (
                10,
                "the number of subwords: expected at least 11, the number of different characters, found 10",
            ),
        ] {
            assert_eq!(
                Subwords::learn(TEXTS, count).unwrap_err().to_string(),
                expected
            );
        }
    }
}
