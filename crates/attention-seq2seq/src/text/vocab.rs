//! The tokens that a model knows, and their ids.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::data::Pair;
use crate::data::examples::Example;
use crate::error::{Error, Result};
use crate::text::vocab_limits::VocabLimits;

/// The first tokens of every vocabulary, in the order of their ids.
const SPECIAL: [&str; 4] = ["<pad>", "<bos>", "<eos>", "<unk>"];

/// Token ids: four special tokens, then the other tokens from frequent to rare.
///
/// Text cannot name a special token: a data token spelled `<eos>`, as in files of other programs, is a token like any
/// other, with its own id. A vocabulary is checked when it is loaded.
///
/// ```
/// use attention_seq2seq::{Tokenization::Chars, Vocab};
///
/// let line = Chars.split("banana");
/// let vocab = Vocab::build([&line[..]]);
/// assert_eq!(vocab.encode(&Chars.split("nab?")), [5, 4, 6, Vocab::UNK]);
/// assert_eq!(vocab.decode(&[Vocab::BOS, 5, 4, 6, Vocab::EOS, Vocab::PAD]), ["n", "a", "b"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Vocab {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Vocab {
    /// Fills the end of short sequences in a batch; masked everywhere.
    pub const PAD: u32 = 0;
    /// Begins a target: the decoder's first input.
    pub const BOS: u32 = 1;
    /// Ends a target: the decoder's last output.
    pub const EOS: u32 = 2;
    /// Stands for every token that is not in the vocabulary.
    pub const UNK: u32 = 3;
    /// The number of special tokens, and so the id of the first token of the data.
    pub const SPECIAL_TOKENS: usize = SPECIAL.len();

    /// The vocabulary of all tokens in these sequences, frequent ones first, equally frequent ones in alphabetical
    /// order: the order of the sequences does not matter.
    pub fn build<'a>(sequences: impl IntoIterator<Item = &'a [String]>) -> Self {
        TokenCounts::of(sequences).into_vocab(&VocabLimits::default())
    }

    /// The ids of these tokens, [`UNK`](Self::UNK) for unknown ones.
    pub fn encode(&self, tokens: &[String]) -> Vec<u32> {
        let id = |token: &String| self.id(token).unwrap_or(Self::UNK);
        tokens.iter().map(id).collect()
    }

    /// The ids of these tokens.
    ///
    /// # Errors
    /// [`Error::UnknownToken`] for the first token without an id, with a token that may have been meant.
    pub(crate) fn try_encode(&self, tokens: &[String]) -> Result<Vec<u32>> {
        let ids = tokens.iter().enumerate().map(|(index, token)| {
            self.id(token).ok_or_else(|| Error::UnknownToken {
                token: token.clone(),
                position: index + 1,
                hint: self.hint(token),
            })
        });
        ids.collect()
    }

    /// The tokens of these ids: up to the first [`EOS`](Self::EOS), without [`PAD`](Self::PAD) and [`BOS`](Self::BOS).
    ///
    /// # Panics
    /// If an id is not below [`len`](Self::len): the ids belong to another vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Vec<String> {
        ids.iter()
            .take_while(|id| **id != Self::EOS)
            .filter(|id| ![Self::PAD, Self::BOS].contains(id))
            .map(|id| match self.token(*id) {
                Some(token) => token.to_owned(),
                None => panic!(
                    "expected token numbers below {}, found {id}: use the model's own vocabulary",
                    self.len()
                ),
            })
            .collect()
    }

    /// The number of tokens, including special tokens: the size of the model's embedding or output layer.
    #[expect(clippy::len_without_is_empty, reason = "it always has special tokens")]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The token of an id; special tokens have the names `<pad>`, `<bos>`, `<eos>`, `<unk>`.
    pub(crate) fn token(&self, id: u32) -> Option<&str> {
        let token = self.tokens.get(usize::try_from(id).ok()?);
        token.map(String::as_str)
    }

    /// The id of a token of the data; `None` for special tokens.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    fn from_tokens(tokens: Vec<String>) -> Self {
        let known = (0..).zip(&tokens).skip(SPECIAL.len());
        let ids = known.map(|(id, token)| (token.clone(), id)).collect();
        Self { tokens, ids }
    }

    /// A token that differs in form or case, otherwise the vocabulary itself if it is short enough to read.
    fn hint(&self, token: &str) -> String {
        let is_mark = |c: char| ('\u{300}'..='\u{36f}').contains(&c);
        if token.chars().any(is_mark) {
            return "a letter and its accent came as two characters (Unicode's NFD): write them as one (NFC)"
                .to_string();
        }
        const READABLE: usize = 60;
        let known = &self.tokens[SPECIAL.len()..];
        let lowercase = token.to_lowercase();
        if let Some(similar) = known.iter().find(|known| known.to_lowercase() == lowercase) {
            format!("did you mean {similar:?}?")
        } else if known.len() <= READABLE {
            let known: Vec<String> = known.iter().map(|it| format!("{it:?}")).collect();
            format!("expected one of: {}", known.join(" "))
        } else {
            let count = known.len();
            format!("it is not among the {count} tokens the model was trained on")
        }
    }
}

/// How often each token occurs.
#[derive(Default)]
pub(crate) struct TokenCounts(BTreeMap<String, usize>);

impl TokenCounts {
    fn of<'a>(sequences: impl IntoIterator<Item = &'a [String]>) -> Self {
        let mut counts = Self::default();
        let tokens = sequences.into_iter().flatten();
        tokens.for_each(|token| counts.add(token));
        counts
    }

    pub(crate) fn add(&mut self, token: &str) {
        if let Some(count) = self.0.get_mut(token) {
            *count += 1;
        } else if !token.is_empty() {
            self.0.insert(token.to_owned(), 1);
        }
    }

    /// The count of the most frequent token.
    pub(crate) fn most(&self) -> usize {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// The vocabulary of these tokens, in the order of [`Vocab::build`].
    pub(crate) fn into_vocab(self, limits: &VocabLimits) -> Vocab {
        let frequent = self.0.into_iter();
        let frequent = frequent.filter(|(_, count)| *count >= limits.min_count);
        let mut by_count = frequent.collect::<Vec<_>>();
        // The sort is stable: the order of the map breaks ties.
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        by_count.truncate(limits.max_tokens.unwrap_or(usize::MAX));
        let special = SPECIAL.into_iter().map(str::to_owned);
        let tokens = special.chain(by_count.into_iter().map(|(token, _)| token));
        Vocab::from_tokens(tokens.collect())
    }
}

/// The tokens in the order of their ids, as a vocabulary is written.
impl From<Vocab> for Vec<String> {
    fn from(vocab: Vocab) -> Self {
        vocab.tokens
    }
}

impl TryFrom<Vec<String>> for Vocab {
    type Error = String;

    fn try_from(tokens: Vec<String>) -> std::result::Result<Self, String> {
        if !tokens.iter().take(SPECIAL.len()).eq(&SPECIAL) {
            let found = &tokens[..tokens.len().min(SPECIAL.len())];
            return Err(format!(
                "expected the first tokens to be {SPECIAL:?}, found {found:?}"
            ));
        }
        let mut lines = HashMap::new();
        for (id, token) in tokens.iter().enumerate() {
            if token.is_empty() {
                let line = format!("expected a token at number {id}, found an empty string");
                return Err(line);
            }
            // A token of the data may be spelled like a special one.
            let known = lines.insert(token, id);
            if let Some(first) = known.filter(|&first| first >= SPECIAL.len()) {
                return Err(format!(
                    "expected every token once, found {token:?} at numbers {first} and {id}"
                ));
            }
        }
        Ok(Self::from_tokens(tokens))
    }
}

/// The vocabularies of source and target. They are checked when they are loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabs {
    /// The tokens that the encoder reads.
    pub source: Vocab,
    /// The tokens that the decoder predicts.
    pub target: Vocab,
}

impl Vocabs {
    /// The vocabularies of all sources and of all targets in these pairs.
    pub fn build(pairs: &[Pair]) -> Self {
        Self {
            source: Vocab::build(pairs.iter().map(|pair| pair.source.as_slice())),
            target: Vocab::build(pairs.iter().map(|pair| pair.target.as_slice())),
        }
    }

    /// The pairs as token ids, unknown tokens as [`Vocab::UNK`].
    pub fn encode(&self, pairs: &[Pair]) -> Vec<Example> {
        let example = |pair: &Pair| Example {
            source: self.source.encode(&pair.source),
            target: self.target.encode(&pair.target),
        };
        pairs.iter().map(example).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokens::Tokenization::Spaces;

    fn vocab() -> Vocab {
        let sequences = ["b a c", "b <eos> a", "d b"].map(|line| Spaces.split(line));
        Vocab::build(sequences.iter().map(Vec::as_slice))
    }

    #[test]
    fn tokens_are_numbered_by_frequency_then_by_character() {
        let vocab = vocab();
        let tokens: Vec<&str> = (0..).map_while(|id| vocab.token(id)).collect();
        assert_eq!(tokens.join(" "), "<pad> <bos> <eos> <unk> b a <eos> c d");
        assert_eq!((vocab.len(), Vocab::SPECIAL_TOKENS), (9, 4));
        let reversed = ["d b", "a <eos> b", "c a b"].map(|line| Spaces.split(line));
        assert_eq!(Vocab::build(reversed.iter().map(Vec::as_slice)), vocab);
        assert_eq!(Vocab::build([]).len(), 4);
    }

    #[test]
    fn rare_tokens_are_left_out_in_an_order_that_does_not_depend_on_the_data() {
        let sequences = ["b a c", "b <eos> a", "d b"].map(|line| Spaces.split(line));
        let tokens = |min_count, max_tokens| -> String {
            let limits = VocabLimits {
                min_count,
                max_tokens,
            };
            let sequences = sequences.iter().map(Vec::as_slice);
            let reversed = TokenCounts::of(sequences.clone().rev());
            let vocab = TokenCounts::of(sequences).into_vocab(&limits);
            assert_eq!(reversed.into_vocab(&limits), vocab);
            vocab.tokens[SPECIAL.len()..].concat()
        };
        assert_eq!(tokens(1, None), "ba<eos>cd");
        assert_eq!(tokens(2, None), "ba");
        assert_eq!(tokens(1, Some(4)), "ba<eos>c");
        assert_eq!(tokens(3, Some(9)), "b");
        assert_eq!(tokens(4, Some(9)), "");
    }

    #[test]
    fn encoding_and_decoding() {
        let vocab = vocab();
        let expected = [5, 4, 3, 3, 6, 7];
        assert_eq!(vocab.encode(&Spaces.split("a b x <pad> <eos> c")), expected);
        let ids = [Vocab::BOS, 5, Vocab::PAD, 4, 6, Vocab::UNK, Vocab::EOS, 7];
        assert_eq!(vocab.decode(&ids), ["a", "b", "<eos>", "<unk>"]);
        let tokens = Spaces.split("d c <eos> b a");
        assert_eq!(vocab.decode(&vocab.try_encode(&tokens).unwrap()), tokens);
        let expected = (None, None, Some(7));
        assert_eq!((vocab.token(9), vocab.id("<bos>"), vocab.id("c")), expected);
    }

    #[test]
    fn an_unknown_token_is_named_with_its_place_and_a_hint() {
        let line = |text: &str| {
            let error = vocab().try_encode(&Spaces.split(text));
            error.unwrap_err().to_string()
        };
        let similar = "unknown token \"C\" at position 2; did you mean \"c\"?";
        assert_eq!(line("a C"), similar);
        let all = "expected one of: \"b\" \"a\" \"<eos>\" \"c\" \"d\"";
        assert!(line("1").ends_with(all));
        assert!(line("<bos>").starts_with("unknown token"));
        let apart = line("a e\u{301}");
        assert!(apart.ends_with("came as two characters (Unicode's NFD): write them as one (NFC)"));
    }

    #[test]
    #[should_panic(expected = "token numbers below 9, found 9")]
    fn numbers_of_another_vocabulary_are_refused() {
        vocab().decode(&[9]);
    }

    #[test]
    fn a_saved_vocabulary_loads_and_a_broken_one_says_why() {
        let good = serde_json::to_string(&vocab()).unwrap();
        assert_eq!(serde_json::from_str::<Vocab>(&good).unwrap(), vocab());
        for (from, to, reason) in [
            ("\"<bos>\",", "", "found [\"<pad>\", \"<eos>\", "),
            ("\"c\"", "\"a\"", "found \"a\" at numbers 5 and 7"),
            ("\"c\"", "\"<eos>\"", "found \"<eos>\" at numbers 6 and 7"),
            ("\"c\"", "\"\"", "number 7, found an empty string"),
            ("\"c\"", "7", "expected a string"),
            ("]", "", "EOF while parsing a list"),
        ] {
            assert!(good.contains(from));
            let broken = serde_json::from_str::<Vocab>(&good.replace(from, to));
            let error = broken.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
