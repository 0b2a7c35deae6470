#![doc = include_str!("../README.md")]
//!
//! # The way through the crate
//!
//! - Pairs: [`Task`] generates them, [`load_pairs`] reads them from a file, [`split_holdout`] holds some out for
//!   validation.
//! - Tokens: [`Tokenization`] splits a text, [`Vocab`] gives each token an id, [`Batch`] pads the ids.
//! - Model: [`Seq2Seq`] is the recurrent encoder-decoder, [`Transformer`] the one of self-attention, both generic over
//!   the attention to the source; [`AttentionKind`] lists those that a saved model can have. [`Seq2SeqModel`] is what
//!   the rest of the crate needs of a model.
//! - Training (feature `train`): [`Training`] is the whole of it, with checkpoints, and tells a [`TrainObserver`] how
//!   it goes; [`Trainee`] is for a loop of your own.
//! - Run: [`RunDir`] is the folder of a training run, [`RunConfig`] its settings.
//! - Translation: [`Translator`] is a trained model with its vocabularies, or several, [`SearchConfig`] the settings of
//!   its beam search. [`BeamSearchConfig`] searches with any model, by its [`Decoding`].
//! - Insight: [`explain`] shows the alternatives, the attention and the occlusion of each token of an output.
//! - Quality: [`Evaluation`] measures a translator, by [`TokenErrors`], [`Bleu`] and [`ChrF`].
//! - Elsewhere: [`Translator::export`] writes it for PyTorch.
//!
//! Shapes are written `[batch, source tokens, hidden_size]`: the source tokens are the keys of the attention, the
//! target tokens its queries, in decoding one in each step.

#![cfg_attr(feature = "ndarray", allow(deprecated))]
// What training alone needs of other parts stays in its place without it.
#![cfg_attr(not(feature = "train"), allow(dead_code, unused_imports))]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]
// Programs print, the library does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]
// Everything that a function returns has a name for who calls it.
#![warn(unnameable_types)]

mod attention;
mod batch;
mod batches;
mod corpus;
mod data;
mod device;
mod error;
mod evaluation;
mod examples;
mod export;
mod file;
mod memory;
mod metrics;
mod model;
mod normalization;
mod pair_file;
mod run;
mod stop;
mod subwords;
mod tags;
mod tasks;
#[cfg(test)]
mod test_table;
mod tokenizer;
mod tokens;
#[cfg(feature = "train")]
mod train;
mod translate;
mod unknown;
mod variants;
mod vocab;
mod vocab_limits;

// Pairs of source and target.
pub use corpus::Corpus;
pub use data::{Pair, Pairs, SourceGroup, group_by_source, split_holdout};
pub use pair_file::{
    Columns, JsonFields, PairFile, PairFileOptions, PairFormat, Stress, load_pairs,
};
pub use tasks::Task;

// From text to batches.
pub use batch::{Batch, Source};
pub use examples::{Example, Examples};
pub use normalization::Normalization;
pub use subwords::Subwords;
pub use tokens::{TextKind, Tokenization};
pub use unknown::{ReadTokens, UnknownTokens};
pub use vocab::{Vocab, Vocabs};
pub use vocab_limits::VocabLimits;

// The model.
pub use attention::{AnyAttention, AnyScore, AnyState, AttentionKind};
pub use device::{adapters, compiled_in_devices, open_device};
pub use model::{
    AnyModel, AttentionHead, Decoder, Encoded, Encoder, LossOutput, ModelConfig, ModelKind,
    Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Transformer, TransformerConfig, Translation,
};

/// The cell that [`Seq2SeqConfig`] chooses, and the state that an [`Encoder`] ends with.
pub use burn_fused_layers::recurrent::{CellKind, RecurrentState};

// Decoding.
pub use model::{BeamOutput, BeamSearchConfig, Decoding, NextTokens};

// Training.
pub use run::{DataSource, Epoch, Figures, RunConfig, RunDir, RunLock, Select, TrainConfig};
#[cfg(feature = "train")]
pub use train::{
    Adam, GradientNorm, Interrupter, Split, StepOutput, TrainEvent, TrainObserver, TrainOutput,
    Trainee, Training, TrainingEnd,
};

// Translation, and how good it is.
pub use evaluation::{
    Evaluation, EvaluationConfig, EvaluationIntervals, EvaluationSums, SourceErrors, WrongOutput,
};
pub use metrics::{
    AlignedStep, Bleu, Bootstrap, ChrF, Edit, Interval, TokenErrors, align, aligned_steps, d2l_bleu,
};
pub use translate::explain;
pub use translate::{
    Attended, Hypothesis, ScoredHypothesis, SearchConfig, TokenScores, Translator,
};

pub use error::{Error, Result};
pub use file::{write_file, write_file_if};
