//! The vocabularies of a model: one for each side.

use serde::{Deserialize, Serialize};

use crate::data::Pair;
use crate::examples::Example;
use crate::vocab::Vocab;
use crate::vocab_limits::VocabLimits;

/// The vocabularies of source and target. They are checked when they are read.
///
/// ```
/// use attention_seq2seq::{Pair, Tokenization::{Chars, Spaces}, Vocabs};
///
/// let pair = Pair { source: Chars.split("cab"), target: Spaces.split("K AE B") };
/// let vocabs = Vocabs::build(&[pair.clone()]);
/// let example = &vocabs.encode(&[pair])[0];
/// assert_eq!(vocabs.target.decode(&example.target), ["K", "AE", "B"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabs {
    /// The tokens that the encoder reads.
    pub source: Vocab,
    /// The tokens that the decoder predicts.
    pub target: Vocab,
}

impl Vocabs {
    /// The vocabularies of all sources and of all targets of these pairs.
    pub fn build(pairs: &[Pair]) -> Self {
        Self::build_within(pairs, &VocabLimits::default())
    }

    /// As [`build`](Self::build), of the tokens within these limits on either side.
    pub fn build_within(pairs: &[Pair], limits: &VocabLimits) -> Self {
        let sources = pairs.iter().map(|pair| pair.source.as_slice());
        let targets = pairs.iter().map(|pair| pair.target.as_slice());
        Self {
            source: Vocab::build_within(sources, limits),
            target: Vocab::build_within(targets, limits),
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
