//! One search for any model: its interface to the model, its settings and its steps.
//!
//! ```
//! use attention_transformers::generate::search::{BeamSearchConfig, TextDecoding};
//! use attention_transformers::{
//!     LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
//! };
//! use burn::prelude::*;
//!
//! let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(16, 4, 21), 2);
//! let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(31, 16), stack);
//! let model = config.init(&Device::flex());
//! let prompts = vec![vec![3, 1, 4], vec![1, 5]];
//! let mut decoding = TextDecoding::new(&model, model.cache(), prompts).with_ends(vec![2]);
//! let outputs = BeamSearchConfig::new(7).with_beam(4).with_n_best(2).search(&mut decoding)?;
//! assert!(outputs[1][0].tokens.len() <= 7);
//! # Ok::<(), attention_transformers::generate::search::SearchError>(())
//! ```

mod config;
mod decoding;
mod extensions;
mod hypotheses;
mod length_penalty;
mod rules;
mod steps;
mod texts;

pub use config::{BeamSearchConfig, SearchError};
pub(super) use decoding::log_softmax;
pub use decoding::{Decoding, NextTokens};
pub use length_penalty::LengthPenalty;
pub use rules::EarlyStopping;
pub(super) use rules::{Rules, Search};
pub use texts::TextDecoding;

/// An output of a beam search.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamOutput {
    /// The tokens after the prompt, without the end token; [`BeamConfig`](crate::BeamConfig) includes it.
    pub tokens: Vec<u32>,
    /// Whether the output has ended; if not, it was cut off.
    pub ended: bool,
    /// The sum of the log-probabilities of its tokens, and of the end token if it has ended.
    pub log_probability: f64,
    /// The score that orders outputs; without penalties, the log-probability.
    pub score: f64,
}
