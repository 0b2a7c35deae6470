//! Pieces of texts, by the files of SentencePiece.

use std::error::Error;
use std::path::Path;

use prost::Message;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::Precompiled;
use tokenizers::{NormalizedString, Normalizer};

/// The mark of a space before a word.
const SPACE: &str = "\u{2581}";

/// The fields of `sentencepiece_model.proto` that say how a text becomes pieces, by their numbers there.
#[derive(Message)]
struct Model {
    #[prost(message, repeated, tag = "1")]
    pieces: Vec<Piece>,
    #[prost(message, required, tag = "2")]
    trainer: Trainer,
    #[prost(message, required, tag = "3")]
    normalizer: Rules,
}

#[derive(Message)]
struct Piece {
    #[prost(string, optional, tag = "1")]
    piece: Option<String>,
    #[prost(float, optional, tag = "2")]
    score: Option<f32>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
}

#[derive(Message)]
struct Trainer {
    #[prost(int32, optional, tag = "3")]
    model_type: Option<i32>,
    #[prost(bool, optional, tag = "24")]
    treat_whitespace_as_suffix: Option<bool>,
    #[prost(bool, optional, tag = "35")]
    byte_fallback: Option<bool>,
}

#[derive(Message)]
struct Rules {
    #[prost(bytes = "vec", optional, tag = "2")]
    charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3")]
    add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    escape_whitespaces: Option<bool>,
}

/// Kinds of models and of pieces.
const UNIGRAM: i32 = 1;
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const USER_DEFINED: i32 = 4;

/// A model of SentencePiece that divides texts by the probabilities of single pieces: Kudo 2018, "Subword
/// Regularization: Improving Neural Network Translation Models with Multiple Subword Candidates", section 3.2.
pub(crate) struct SentencePiece {
    unigram: Unigram,
    charsmap: Option<Precompiled>,
    adds_space: bool,
    removes_spaces: bool,
}

impl SentencePiece {
    /// # Errors
    /// If the file is missing or malformed, or its model is of another kind, as by pairs of bytes.
    pub(crate) fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let read = || Self::read(&std::fs::read(path)?);
        read().map_err(|error| format!("`{}`: {error}", path.display()).into())
    }

    fn read(bytes: &[u8]) -> Result<Self, Box<dyn Error>> {
        let Model {
            pieces,
            trainer,
            normalizer: rules,
        } = Model::decode(bytes)?;
        let model_type = trainer.model_type.unwrap_or(UNIGRAM);
        if model_type != UNIGRAM {
            return Err(format!("a unigram model, {UNIGRAM}, expected, got {model_type}").into());
        }
        let is_other = trainer.treat_whitespace_as_suffix == Some(true)
            || trainer.byte_fallback == Some(true)
            || rules.escape_whitespaces == Some(false)
            || pieces.iter().any(|of| of.kind == Some(USER_DEFINED));
        if is_other {
            let expected =
                "marks of spaces before words, no pieces of bytes and no symbols of users expected";
            return Err(expected.into());
        }
        // Control symbols are never found in a text.
        let in_texts = pieces.into_iter().filter_map(|of| {
            let kind = of.kind.unwrap_or(NORMAL);
            let vocab = (
                of.piece.unwrap_or_default(),
                f64::from(of.score.unwrap_or(0.0)),
            );
            [NORMAL, UNKNOWN].contains(&kind).then_some((kind, vocab))
        });
        let (kinds, vocab): (Vec<i32>, Vec<_>) = in_texts.unzip();
        let unknown = kinds.iter().position(|kind| *kind == UNKNOWN);
        let charsmap = rules.charsmap.filter(|bytes| !bytes.is_empty());
        let charsmap = charsmap.map(|bytes| Precompiled::from(&bytes)).transpose();
        Ok(Self {
            unigram: Unigram::from(vocab, unknown, false).map_err(|error| error.to_string())?,
            charsmap: charsmap.map_err(|error| error.to_string())?,
            adds_space: rules.add_dummy_prefix.unwrap_or(true),
            removes_spaces: rules.remove_extra_whitespaces.unwrap_or(true),
        })
    }

    /// The pieces of a text: characters that no piece has are one, as they are.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let mut normalized = NormalizedString::from(text);
        if let Some(charsmap) = &self.charsmap {
            charsmap
                .normalize(&mut normalized)
                .map_err(|error| error.to_string())?;
        }
        let mut words = normalized.get().to_string();
        if self.removes_spaces {
            let all = words.split(' ').filter(|word| !word.is_empty());
            words = all.collect::<Vec<_>>().join(" ");
        }
        if self.adds_space && !words.is_empty() {
            words.insert(0, ' ');
        }
        let marked = words.replace(' ', SPACE);
        Ok(self
            .unigram
            .encode(&marked)
            .map_err(|error| error.to_string())?)
    }
}

/// The text of pieces.
pub(crate) fn decode<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    let text: String = pieces.collect();
    text.replace(SPACE, " ").trim().to_string()
}
