//! The texts of one side to tokens, and back.

use std::borrow::Cow;
use std::fmt;

use crate::text::normalization::Normalization;
use crate::text::subwords::Subwords;
use crate::text::tags;
use crate::text::tokens::Tokenization;

/// How the texts of one side become tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tokenizer {
    pub(crate) tokens: Tokenization,
    /// The subwords into which words are divided, instead of `tokens`.
    pub(crate) subwords: Option<Subwords>,
    pub(crate) normalization: Normalization,
    /// Whether tags stand before a text.
    pub(crate) has_tags: bool,
}

impl From<Tokenization> for Tokenizer {
    /// Texts stay as they are.
    fn from(tokens: Tokenization) -> Self {
        Self {
            tokens,
            subwords: None,
            normalization: Normalization::None,
            has_tags: false,
        }
    }
}

impl Tokenizer {
    /// The form of a text that [`tokens`](Self::tokens) splits: normalized, with tags as in [`tags::with_tags`], and
    /// spaces between subwords.
    pub(crate) fn prepare<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let text = self.normalization.apply(text);
        let text = match self.has_tags {
            true => Cow::Owned(tags::canonical(&text)),
            false => text,
        };
        let Some(subwords) = &self.subwords else {
            return text;
        };
        let (tags, text) = self.divide(&text);
        let pieces = subwords.split(text).join(" ");
        Cow::Owned(match tags {
            "" => pieces,
            tags => tags::with_tags(tags, &pieces),
        })
    }

    /// The tags of a text, and the text after them.
    pub(crate) fn divide<'a>(&self, text: &'a str) -> (&'a str, &'a str) {
        match self.has_tags {
            true => tags::split(text),
            false => ("", text),
        }
    }

    /// The tokens of a prepared text, as parts of it.
    pub(crate) fn tokens<'a>(&self, prepared: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let (tags, text) = self.divide(prepared);
        let tokens = match self.subwords {
            Some(_) => Tokenization::Spaces,
            None => self.tokens,
        };
        tags::tokens(tags).chain(tokens.tokens(text))
    }

    /// As [`tokens`](Self::tokens), each a string.
    pub(crate) fn owned_tokens(&self, prepared: &str) -> Vec<String> {
        self.tokens(prepared).map(str::to_owned).collect()
    }

    /// The tokens of a text.
    pub(crate) fn split(&self, text: &str) -> Vec<String> {
        self.owned_tokens(&self.prepare(text))
    }

    /// The text that tokens make, as users expect it: letters and accents are composed, if they were decomposed.
    pub(crate) fn join(&self, tokens: &[String]) -> String {
        let tags = match self.has_tags {
            true => tokens.iter().take_while(|it| tags::is_tag(it)).count(),
            false => 0,
        };
        let (tags, tokens) = tokens.split_at(tags);
        let mut text = tags.concat();
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&match &self.subwords {
            Some(subwords) => subwords.join(tokens),
            None => self.tokens.join(tokens),
        });
        match self.normalization {
            Normalization::Nfd => Normalization::Nfc.apply(&text).into_owned(),
            Normalization::None | Normalization::Nfc => text,
        }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags = if self.has_tags { "tags and " } else { "" };
        match &self.subwords {
            Some(subwords) => write!(f, "{tags}{} subwords", subwords.count())?,
            None => write!(f, "{tags}{}", self.tokens)?,
        }
        match self.normalization {
            Normalization::None => Ok(()),
            form => write!(f, " of {form}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokens::Tokenization::{Chars, Spaces};

    fn tokenizer(tokens: Tokenization, normalization: Normalization, has_tags: bool) -> Tokenizer {
        Tokenizer {
            normalization,
            has_tags,
            ..Tokenizer::from(tokens)
        }
    }

    #[test]
    fn tags_come_first_each_a_token() {
        let tagged = tokenizer(Chars, Normalization::None, true);
        for text in [
            "V;PST\tgo off",
            "V;PST go off",
            "V;PST; go off",
            "V;PST;  go off",
            "V;PST \t go off",
            "V;;PST; go off",
        ] {
            let tokens = tagged.split(text);
            assert_eq!(tokens.join("|"), "V;|PST;|g|o| |o|f|f", "{text:?}");
            assert_eq!(tagged.join(&tokens), "V;PST; go off");
        }
        // A letter is not the tag of the same name.
        assert_eq!(tagged.split("N\tN"), ["N;", "N"]);
        assert_eq!(tagged.join(&tagged.split("N; N")), "N; N");
        // Without tags, and without a column of them.
        assert_eq!(tagged.split("go off").concat(), "go off");
        let plain = tokenizer(Spaces, Normalization::None, false);
        assert_eq!(plain.split("V;PST go"), ["V;PST", "go"]);
        let words = tokenizer(Spaces, Normalization::None, true);
        assert_eq!(words.split("V;PST go off"), ["V;", "PST;", "go", "off"]);
    }

    #[cfg(feature = "subwords")]
    #[test]
    fn subwords_come_after_tags_of_the_normal_form() {
        let texts = ["go off", "go on", "go go gone", "caf\u{e9}"];
        let subwords = Subwords::learn(texts, 30).unwrap();
        let mut tagged = tokenizer(Chars, Normalization::Nfc, true);
        tagged.subwords = Some(subwords);
        for text in ["V;PST\tgo off", "V;PST go off"] {
            let tokens = tagged.split(text);
            assert_eq!(tokens[..3], ["V;", "PST;", "▁go"], "{tokens:?}");
            assert_eq!(tagged.join(&tokens), "V;PST; go off");
        }
        assert_eq!(tagged.split("cafe\u{301}"), tagged.split("caf\u{e9}"));
        assert_eq!(tagged.join(&tagged.split("go gone")), "go gone");
        assert_eq!(tagged.to_string(), "tags and 30 subwords of nfc");
    }
}
