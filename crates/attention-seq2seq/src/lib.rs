#![doc = include_str!("../README.md")]
//!
//! # The way through the crate
//!
//! - Pairs ([`data`]): [`Task`] generates them, [`load_pairs`] reads them from a file, [`split_holdout`] holds some out
//!   for validation.
//! - Tokens ([`text`]): [`Tokenization`] splits a text, [`Vocab`] gives each token an id, [`Batch`] pads the ids.
//! - Model ([`model`]): [`Seq2Seq`] is the recurrent encoder-decoder, [`Transformer`] the one of self-attention, both
//!   generic over the attention to the source; [`AttentionKind`] lists those that a saved model can have.
//!   [`Seq2SeqModel`] is what the rest of the crate needs of a model.
//! - Training ([`train`](mod@train), feature `train`): [`Training`] is the whole of it, with checkpoints, and tells a
//!   [`TrainObserver`](train::TrainObserver) how it goes; [`Trainee`] is for a loop of your own.
//! - Run ([`run`]): [`RunDir`] is the folder of a training run, [`RunConfig`] its settings.
//! - Translation ([`translate`]): [`Translator`] is a trained model with its vocabularies, or several, [`SearchConfig`]
//!   the settings of its beam search. [`BeamSearchConfig`](model::BeamSearchConfig) searches with any model, by its
//!   [`Decoding`](model::Decoding).
//! - Insight ([`translate::explain`]): the alternatives, the attention and the occlusion of each token of an output.
//! - Quality: [`Evaluation`] measures a translator, by the figures of [`metrics`].
//! - Elsewhere: [`Translator::export`] writes it for PyTorch.
//!
//! Shapes are written `[batch, source tokens, hidden_size]`: the source tokens are the keys of the attention, the
//! target tokens its queries, in decoding one in each step.

#![cfg_attr(feature = "ndarray", allow(deprecated))]
// Code that training alone needs in other parts stays in its place without it.
#![cfg_attr(not(feature = "train"), allow(dead_code, unused_imports))]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]
// Programs print, the library does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]
// Everything that a function returns has a name for who calls it.
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

// Names of a first week. The others are in their modules.
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
