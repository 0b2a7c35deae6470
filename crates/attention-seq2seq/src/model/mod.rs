//! The models: encoder-decoders with attention to the source.

mod any;
mod candidates;
mod checks;
mod ensemble;
mod forced;
mod frozen;
mod greedy;
mod loss;
mod recurrent;
mod seq2seq_model;
mod settings;
mod transformer;

pub use any::AnyModel;
/// The search that all models use.
pub use attention_transformers::generate::search::{
    BeamOutput, BeamSearchConfig, Decoding, LengthPenalty, NextTokens, SearchError,
};
/// The cell that [`Seq2SeqConfig`] chooses, and the final state of an [`Encoder`].
pub use burn_fused_layers::recurrent::{CellKind, RecurrentState};
pub(crate) use ensemble::EnsembleDecoding;
pub(crate) use forced::{each_forced_step, forced_log_probabilities};
pub(crate) use frozen::FrozenModel;
pub(crate) use greedy::greedy_search;
pub use recurrent::{Decoder, Encoded, Encoder, Seq2Seq, Seq2SeqConfig};
pub use seq2seq_model::{LossOutput, Seq2SeqModel, Translation};
pub use settings::{ModelConfig, ModelKind};
pub use transformer::{AttentionHead, Transformer, TransformerConfig};
