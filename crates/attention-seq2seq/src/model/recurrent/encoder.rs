//! The encoder: source tokens to one state per token.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::EmbeddingTable;
use burn_fused_layers::recurrent::{
    Recurrent, RecurrentConfig, RecurrentLayer, RecurrentState, Steps,
};

use super::Seq2SeqConfig;
use super::gates::token_gates;
use crate::data::batch::Source;

/// A recurrent encoder: embeddings, then layers of GRUs or LSTMs, in one direction or both.
#[derive(Module, Debug)]
pub struct Encoder {
    /// The embedding of source tokens, `[tokens, embedding_size]`.
    pub embedding: Embedding,
    /// Dropout on these embeddings.
    pub embedding_dropout: Dropout,
    /// The recurrent layers.
    pub recurrent: Recurrent,
}

/// The output of an [`Encoder`].
pub struct Encoded {
    /// The top layer's state at every source token, `[batch, source tokens, hidden_size]`; arbitrary at padding.
    pub states: Tensor<3>,
    /// The state of each layer after the last token, with `hidden_size` features: both directions concatenated.
    pub last: Vec<RecurrentState>,
}

impl Encoder {
    /// An encoder with new random parameters.
    pub(super) fn new(config: &Seq2SeqConfig, device: &Device) -> Self {
        let hidden_size = config.hidden_size;
        assert!(
            !config.bidirectional || hidden_size.is_multiple_of(2),
            "Seq2SeqConfig: hidden_size of a bidirectional encoder expected even, got {hidden_size}"
        );
        let directions = if config.bidirectional { 2 } else { 1 };
        let size = hidden_size / directions;
        let embedding = EmbeddingConfig::new(config.source_vocab_size, config.embedding_size);
        let recurrent = RecurrentConfig::new(config.cell, config.embedding_size, size)
            .with_layers(config.layers)
            .with_bidirectional(config.bidirectional)
            .with_dropout(config.layer_dropout);
        Self {
            embedding: embedding.init(device),
            embedding_dropout: DropoutConfig::new(config.embedding_dropout).init(),
            recurrent: recurrent.init(device),
        }
    }

    /// Encodes a batch of sources. Padding does not change the state of any token.
    pub fn forward(&self, source: &Source) -> Encoded {
        let in_order = Steps::of_lens(source.lens());
        let embedding = EmbeddingTable::new(self.embedding.weight.val());
        let dropout = &self.embedding_dropout;
        let of_tokens = |layer: &RecurrentLayer| {
            token_gates(&layer.input, &embedding, dropout, source.tokens())
        };
        let (states, last) = self.recurrent.forward_gates(of_tokens, None, &in_order);
        let directions = last.len() / self.recurrent.layers.len();
        Encoded {
            states,
            last: last.chunks(directions).map(side_by_side).collect(),
        }
    }
}

/// The state of a layer: the states of its directions, concatenated.
fn side_by_side(directions: &[RecurrentState]) -> RecurrentState {
    let hidden = directions.iter().map(|state| state.hidden.clone());
    let cells: Option<Vec<_>> = directions.iter().map(|state| state.cell.clone()).collect();
    RecurrentState {
        hidden: Tensor::cat(hidden.collect(), 1),
        cell: cells.map(|cells| Tensor::cat(cells, 1)),
    }
}
