#![doc = include_str!("../README.md")]
//!
//! # The way through the crate
//!
//! - Pairs ([`data`]): [`Task`] generates them, [`load_pairs`] reads them from a file, [`split_holdout`] holds some out
//!   for validation.
//! - Tokens ([`text`]): [`Tokenization`] splits a text, [`Vocab`] gives each token an id, [`Batch`] pads the ids.
//! - Model ([`model`]): [`Seq2Seq`] is the recurrent encoder-decoder, [`Transformer`] the self-attentive one, both
//!   generic over the attention to the source; [`AttentionKind`] lists the attentions that a saved model can have.
//!   [`Seq2SeqModel`] has what the rest of the crate needs of a model.
//! - Training ([`train`](mod@train), feature `train`): [`Training`] is a whole training, with checkpoints, and reports
//!   to a [`TrainObserver`](train::TrainObserver); [`Trainee`] is for a loop of your own.
//! - Run ([`run`]): [`RunDir`] is the folder of a training run, [`RunConfig`] its settings.
//! - Translation ([`translate`]): [`Translator`] is one or several trained models with vocabularies, [`SearchConfig`]
//!   the settings of its beam search. [`BeamSearchConfig`](model::BeamSearchConfig) searches with any model that
//!   implements [`Decoding`](model::Decoding).
//! - Insight ([`translate::explain`]): the alternatives, the attention and the occlusion of each token of an output.
//! - Quality: [`Evaluation`] measures a translator by the [`metrics`].
//! - Elsewhere: [`Translator::export`] writes a model for PyTorch.
//!
//! Shapes are written `[batch, source tokens, hidden_size]`: source tokens are the keys of the attention, target tokens
//! its queries; decoding has one query per step.

#![cfg_attr(feature = "ndarray", allow(deprecated))]
// Code that only training uses in other parts stays in place without the feature.
#![cfg_attr(not(feature = "train"), allow(dead_code, unused_imports))]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]
// Programs print, the library does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]
// All types that functions return can be named by callers.
#![warn(unnameable_types)]

pub mod attention;
pub mod data;
pub mod device;
mod error;
pub mod evaluation;
mod export;
pub mod file;
mod memory;
pub mod metrics;
pub mod model;
pub mod run;
mod stop;
pub mod text;
#[cfg(feature = "train")]
pub mod train;
pub mod translate;
mod variants;

// The names that most programs need. The others are in their modules.
pub use attention::AttentionKind;
pub use data::{Batch, Example, Pair, Pairs, Task, load_pairs, split_holdout};
pub use device::open_device;
pub use error::{Error, Result};
pub use evaluation::Evaluation;
pub use model::{Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Transformer, TransformerConfig};
pub use run::{DataSource, RunConfig, RunDir, TrainConfig};
pub use text::{Tokenization, Vocab, Vocabs};
#[cfg(feature = "train")]
pub use train::{Interrupter, TrainEvent, Trainee, Training};
pub use translate::{SearchConfig, Translator};

#[cfg(test)]
mod tests;
