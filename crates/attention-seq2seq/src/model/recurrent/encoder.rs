//! The encoder: source tokens to one state per token.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::EmbeddingTable;
use burn_fused_layers::recurrent::{
    CellKind, Recurrent, RecurrentConfig, RecurrentLayer, RecurrentState, Steps,
};

use super::gates::token_gates;
use crate::batch::Source;

/// Configuration of an [`Encoder`].
///
/// ```
/// use attention_seq2seq::{EncoderConfig, Source};
/// use burn::tensor::Device;
///
/// let device = Device::flex();
/// let encoder = EncoderConfig::new(12, 5, 8).with_layers(2).init(&device);
/// let source = Source::new([&[5, 4, 6][..], &[7]], &device);
/// let encoded = encoder.forward(&source);
/// assert_eq!(encoded.states.dims(), [2, 3, 8]);
/// assert_eq!(encoded.last.len(), 2);
/// ```
#[derive(Config, Debug)]
pub struct EncoderConfig {
    /// The number of source tokens.
    pub vocab_size: usize,
    /// The feature dimension of a token's embedding.
    pub embedding_size: usize,
    /// The feature dimension of a state; a bidirectional encoder gives half to each direction.
    pub hidden_size: usize,
    /// The number of layers.
    #[config(default = 1)]
    pub layers: usize,
    /// Whether the encoder reads the source in both directions.
    #[config(default = true)]
    pub bidirectional: bool,
    /// The cell of the layers.
    #[config(default = "CellKind::Gru")]
    pub cell: CellKind,
    /// The probability to drop a feature of an embedding while training.
    #[config(default = 0.0)]
    pub embedding_dropout: f64,
    /// The probability to drop an output of a layer below another while training.
    #[config(default = 0.0)]
    pub layer_dropout: f64,
}

impl EncoderConfig {
    /// An encoder with new random parameters.
    ///
    /// # Panics
    /// If a size is 0, or `hidden_size` is odd and the encoder bidirectional.
    pub fn init(&self, device: &Device) -> Encoder {
        assert!(
            self.layers > 0,
            "EncoderConfig: layers expected at least 1, got 0"
        );
        assert!(
            !self.bidirectional || self.hidden_size.is_multiple_of(2),
            "EncoderConfig: hidden_size of a bidirectional encoder expected even, got {}",
            self.hidden_size
        );
        let directions = if self.bidirectional { 2 } else { 1 };
        let size = self.hidden_size / directions;
        let recurrent = RecurrentConfig::new(self.cell, self.embedding_size, size)
            .with_layers(self.layers)
            .with_bidirectional(self.bidirectional)
            .with_dropout(self.layer_dropout);
        Encoder {
            embedding: EmbeddingConfig::new(self.vocab_size, self.embedding_size).init(device),
            embedding_dropout: DropoutConfig::new(self.embedding_dropout).init(),
            recurrent: recurrent.init(device),
        }
    }
}

/// A recurrent encoder: embeddings through layers of GRUs or LSTMs, in one direction or both.
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
    /// The state of each layer after the last token, of `hidden_size`: both directions concatenated.
    pub last: Vec<RecurrentState>,
}

impl Encoder {
    /// Encodes a batch of sources. Padding changes no state of a token.
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

/// The state of a layer, of those of its directions.
fn side_by_side(directions: &[RecurrentState]) -> RecurrentState {
    let hidden = directions.iter().map(|state| state.hidden.clone());
    let cells = directions.iter().map(|state| state.cell.clone());
    let cells: Option<Vec<_>> = cells.collect();
    RecurrentState {
        hidden: Tensor::cat(hidden.collect(), 1),
        cell: cells.map(|cells| Tensor::cat(cells, 1)),
    }
}
