//! Guesses of the tokenization from a sample of texts.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use super::{Tokenization, trim};

/// The facts about texts that are known before these are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextKind {
    /// Nothing: words or letters.
    #[default]
    Any,
    /// Texts whose letters a model reads or writes, even if they have several words.
    Letters,
    /// Texts whose words a model reads or writes.
    Words,
}

impl Tokenization {
    /// Guesses from a sample of lines: [`Spaces`](Self::Spaces) if more than half of them have a space between two
    /// other characters, and the parts between spaces are tokens of a model.
    ///
    /// - In [`TextKind::Letters`] only letters written apart are such tokens, in [`TextKind::Words`] any parts.
    /// - In [`TextKind::Any`] tokens are letters or phonemes written apart, recurring words, or words of sentences: at
    ///   least four words per line, or a mark at the end. Names of two or three words do not qualify: a model has to
    ///   learn their letters.
    ///
    /// Empty lines do not count; without other lines the guess is `Chars`. The guess is wrong for dates and other texts
    /// of letters whose words recur, so the user can override it.
    pub(crate) fn guess<'a>(kind: TextKind, lines: impl IntoIterator<Item = &'a str>) -> Self {
        let sample = Sample::of(lines);
        let are_tokens = match kind {
            TextKind::Any => sample.are_letters_apart() || sample.are_words(),
            TextKind::Letters => sample.are_letters_apart(),
            TextKind::Words => true,
        };
        match are_tokens && 2 * sample.spaced > sample.lines {
            true => Self::Spaces,
            false => Self::Chars,
        }
    }
}

/// The counts of a sample of lines.
#[derive(Default)]
struct Sample<'a> {
    lines: usize,
    /// The number of lines with a space.
    spaced: usize,
    /// The number of lines that end with a mark, as sentences do.
    ended: usize,
    /// How often each word occurs.
    words: HashMap<&'a str, usize>,
}

impl<'a> Sample<'a> {
    fn of(lines: impl IntoIterator<Item = &'a str>) -> Self {
        const MARKS: [char; 8] = ['.', '!', '?', '…', '。', '！', '？', '।'];
        let mut sample = Self::default();
        for line in lines.into_iter().map(trim).filter(|it| !it.is_empty()) {
            sample.lines += 1;
            sample.spaced += usize::from(line.contains(' '));
            sample.ended += usize::from(line.ends_with(MARKS));
            for word in Tokenization::Spaces.tokens(line) {
                *sample.words.entry(word).or_default() += 1;
            }
        }
        sample
    }

    /// The sum of `of_word` over all words, each counted as often as it occurs.
    fn sum(&self, of_word: impl Fn(&str) -> usize) -> usize {
        let words = self.words.iter();
        words.map(|(word, count)| count * of_word(word)).sum()
    }

    /// Whether nearly all words are single letters, with accents.
    fn are_letters_apart(&self) -> bool {
        let is_letter = |word: &str| usize::from(word.nfc().nth(1).is_none());
        10 * self.sum(is_letter) >= 9 * self.sum(|_| 1)
    }

    fn are_words(&self) -> bool {
        let words = self.sum(|_| 1);
        let once = self.words.values().filter(|count| **count == 1).count();
        let are_short = self.sum(|word| word.chars().count()) <= 2 * words;
        let come_again = 10 * once <= words;
        // The syllables of names recur, too, but are few.
        let are_closed = words > 2 * self.lines && (are_short || come_again);
        let are_of_sentences = words >= 4 * self.lines || 2 * self.ended > self.lines;
        are_closed || are_of_sentences
    }
}

#[cfg(test)]
mod tests {
    use super::TextKind::{Any, Letters, Words};
    use super::Tokenization::{Chars, Spaces};
    use super::*;

    fn guess(kind: TextKind, lines: &[String]) -> Tokenization {
        Tokenization::guess(kind, lines.iter().map(String::as_str))
    }

    #[test]
    fn a_guess_needs_more_than_half_of_the_lines() {
        for (lines, expected) in [
            (&["a b", "abc"][..], Chars),
            (&["a b", "c d", "e"], Spaces),
            (&["a b", "", " "], Spaces),
            (&[" abc "], Chars),
            (&["5\u{a0}Mai"], Chars),
            (&[], Chars),
        ] {
            for kind in [Any, Words] {
                let found = Tokenization::guess(kind, lines.iter().copied());
                assert_eq!(found, expected, "{lines:?}");
            }
        }
    }

    #[test]
    fn a_guess_needs_words_that_are_tokens() {
        let month = |at: usize| ["May", "June", "July"][at % 3];
        let line = |kind: &str, at: usize| match kind {
            "digits apart" => format!("{} {}", at / 10, at % 10),
            "phonemes" => format!("AH{} K T{}", at % 3, at % 2),
            "dates" => format!("{} {} 19{}", 1 + at % 9, month(at), 10 + at % 10),
            "long sentences" => format!("w{at} said v{at} to u{at}"),
            "short sentences" => format!("Go{at} away!"),
            "names" => format!("viet{at} nam{at}"),
            "forms" => format!("a fi plecat{at}"),
            _ => format!("ha{} noi{}", at % 5, at % 4),
        };
        for (kind, any) in [
            ("digits apart", Spaces),
            ("phonemes", Spaces),
            ("dates", Spaces),
            ("long sentences", Spaces),
            ("short sentences", Spaces),
            ("names", Chars),
            ("forms", Chars),
            ("few syllables", Chars),
        ] {
            let lines: Vec<String> = (0..90).map(|at| line(kind, at)).collect();
            assert_eq!(guess(Any, &lines), any, "{kind}");
            assert_eq!(guess(Words, &lines), Spaces, "{kind}");
            let are_apart = guess(Letters, &lines) == Spaces;
            assert_eq!(are_apart, kind == "digits apart", "{kind}");
        }
        let accented = Tokenization::guess(Letters, ["c a t", "d o\u{301} g"]);
        assert_eq!(accented, Spaces);
    }
}
