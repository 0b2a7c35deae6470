//! The models that are trained, and what on.

use attention_core::{AdditiveAttention, AdditiveAttentionConfig};
use attention_seq2seq::{Example, Examples, Seq2Seq, Seq2SeqConfig, Vocab};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// The sizes of a model and of a batch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    embedding: usize,
    hidden: usize,
    source_len: usize,
    target_len: usize,
}

impl Sizes {
    /// The steps of an epoch: twice those that a remote device is given at a time.
    pub(crate) const STEPS: usize = 16;

    const VOCAB: usize = 75;

    pub(crate) const ALL: [Self; 2] = [
        // As the program trains dates.
        Self {
            batch: 64,
            embedding: 32,
            hidden: 128,
            source_len: 18,
            target_len: 11,
        },
        Self {
            batch: 128,
            embedding: 128,
            hidden: 256,
            source_len: 32,
            target_len: 32,
        },
    ];

    pub(crate) fn with_batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    pub(crate) fn title(self) -> String {
        let Self {
            batch,
            embedding,
            hidden,
            source_len,
            target_len,
        } = self;
        format!(
            "batch {batch}, source {source_len}, target {target_len}, embedding {embedding}, hidden {hidden}"
        )
    }

    pub(crate) fn model(self, device: &Device) -> Seq2Seq<AdditiveAttention> {
        let attention = AdditiveAttentionConfig::new(self.hidden, self.hidden, self.hidden);
        Seq2SeqConfig::new(Self::VOCAB, Self::VOCAB)
            .with_embedding_size(self.embedding)
            .with_hidden_size(self.hidden)
            .init(attention.init(device), device)
    }

    /// The examples of an epoch.
    pub(crate) fn examples(self) -> Examples {
        let first = Vocab::SPECIAL_TOKENS as u32;
        let ordinary = (Self::VOCAB - Vocab::SPECIAL_TOKENS) as u32;
        let tokens = |seed: usize, len: usize| -> Vec<u32> {
            (0..len)
                .map(|at| first + (31 * seed + 7 * at) as u32 % ordinary)
                .collect()
        };
        let examples = (0..Self::STEPS * self.batch).map(|seed| Example {
            source: tokens(seed, self.source_len),
            target: tokens(seed, self.target_len - 1),
        });
        examples.collect::<Vec<_>>().into()
    }
}
