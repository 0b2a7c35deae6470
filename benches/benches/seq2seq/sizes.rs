//! The models that are trained, and what on.

use std::fmt;

use serde::Serialize;

/// The sizes of a model and of a batch.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub embedding: usize,
    pub hidden: usize,
    pub layers: usize,
    pub source_vocab: usize,
    pub target_vocab: usize,
    pub source_len: usize,
    /// The end included.
    pub target_len: usize,
}

impl Sizes {
    /// The one whose time is taken apart.
    pub(crate) const PROFILED: Self = Self {
        batch: 128,
        embedding: 128,
        hidden: 256,
        layers: 1,
        source_vocab: 50,
        target_vocab: 75,
        source_len: 32,
        target_len: 32,
    };

    pub(crate) const ALL: [Self; 4] = [
        Self::PROFILED,
        // As the program trains dates.
        Self {
            batch: 64,
            embedding: 32,
            hidden: 128,
            source_len: 18,
            target_len: 11,
            ..Self::PROFILED
        },
        Self {
            batch: 256,
            hidden: 512,
            layers: 2,
            ..Self::PROFILED
        },
        // Words.
        Self {
            batch: 64,
            hidden: 128,
            source_vocab: 30_000,
            target_vocab: 30_000,
            source_len: 14,
            target_len: 14,
            ..Self::PROFILED
        },
    ];
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            batch,
            embedding,
            hidden,
            layers,
            source_vocab,
            target_vocab,
            source_len,
            target_len,
        } = self;
        write!(
            f,
            "training step b{batch} source {source_len} target {target_len} embedding {embedding} hidden {hidden} \
             layers {layers} tokens {source_vocab} and {target_vocab}"
        )
    }
}
