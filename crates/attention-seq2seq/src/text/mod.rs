//! Texts to tokens, tokens to numbers, and back.

pub(crate) mod normalization;
pub(crate) mod subwords;
pub(crate) mod tags;
pub(crate) mod tokenizer;
pub(crate) mod tokens;
pub(crate) mod unknown;
pub(crate) mod vocab;
pub(crate) mod vocab_limits;

pub use normalization::Normalization;
pub use subwords::Subwords;
pub use tokens::{TextKind, Tokenization};
pub use unknown::{ReadTokens, UnknownTokens};
pub use vocab::{Vocab, Vocabs};
pub use vocab_limits::VocabLimits;
