//! Byte-pair encoding, by the crate `tokenizers`.

use std::fmt::Display;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::utils::parallelism::set_parallelism;
use tokenizers::{AddedToken, Model, Trainer};

use crate::error::{Error, Result};

/// The piece for unknown characters. It occurs in no text: the character itself is written.
const UNKNOWN: &str = "<unk>";

/// Pieces, and the order in which pairs of them are joined.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pieces(Arc<BPE>);

impl Eq for Pieces {}

impl Pieces {
    pub(super) fn learn(words: &[String], count: usize) -> Result<Self> {
        // On this thread, because the pool of threads is started later, with the requested number.
        set_parallelism(false);
        let unknown = AddedToken::from(UNKNOWN, true);
        let mut trainer = BpeTrainer::builder()
            .show_progress(false)
            .vocab_size(count.saturating_add(1))
            .special_tokens(vec![unknown])
            .build();
        let mut model = BPE::default();
        let fed = trainer.feed(words.iter(), |word| Ok(vec![word.to_owned()]));
        fed.and_then(|()| trainer.train(&mut model))
            .map_err(failed)?;
        model.unk_token = Some(UNKNOWN.to_owned());
        Ok(Self(Arc::new(model)))
    }

    pub(super) fn len(&self) -> usize {
        self.0.get_vocab_size() - 1
    }

    pub(super) fn all(&self) -> Vec<String> {
        let mut all: Vec<(String, u32)> = self.0.get_vocab().into_iter().collect();
        all.sort_unstable_by_key(|(_, id)| *id);
        let pieces = all.into_iter().map(|(piece, _)| piece);
        pieces.filter(|piece| piece != UNKNOWN).collect()
    }

    pub(super) fn split(&self, word: &str) -> Vec<String> {
        let pieces = self.0.tokenize(word);
        let pieces = pieces.expect("a piece for what is unknown is among the pieces");
        let pieces = pieces
            .into_iter()
            .map(|piece| match piece.value == UNKNOWN {
                true => word[piece.offsets.0..piece.offsets.1].to_owned(),
                false => piece.value,
            });
        pieces.collect()
    }
}

fn failed(error: impl Display) -> Error {
    Error::config("subwords", "texts to learn them from", error)
}
