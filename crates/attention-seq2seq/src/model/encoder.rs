//! The encoder: source tokens to one state per token.

use attention_core::EmbeddingTable;
use attention_core::recurrent::{Gru, GruConfig, Steps};
use burn::config::Config;
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig};
use burn::tensor::{Device, Tensor};

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
        let layer = |index: usize| {
            let input_size = match index {
                0 => self.embedding_size,
                _ => self.hidden_size,
            };
            GruConfig::new(input_size, size).init(device)
        };
        let embedding = EmbeddingConfig::new(self.vocab_size, self.embedding_size).init(device);
        let forward = (0..self.layers).map(layer).collect();
        let backward = if self.bidirectional {
            (0..self.layers).map(layer).collect()
        } else {
            Vec::new()
        };
        Encoder {
            embedding,
            forward,
            backward,
        }
    }
}

/// A recurrent encoder: embeddings through layers of GRUs, in one direction or both.
#[derive(Module, Debug)]
pub struct Encoder {
    /// The embedding of source tokens, `[tokens, embedding_size]`.
    pub embedding: Embedding,
    /// The layers that read left to right.
    pub forward: Vec<Gru>,
    /// The layers that read right to left; none if the encoder reads in one direction.
    pub backward: Vec<Gru>,
}

/// The output of an [`Encoder`].
pub struct Encoded {
    /// The top layer's state at every source token, `[batch, source tokens, hidden_size]`; arbitrary at padding.
    pub states: Tensor<3>,
    /// The state of each layer after the last token, `[batch, hidden_size]`.
    pub last: Vec<Tensor<2>>,
}

impl Encoder {
    /// Encodes a batch of sources. Padding changes no state of a token.
    pub fn forward(&self, source: &Source) -> Encoded {
        let in_order = Steps::of_lens(source.lens());
        let embedding = EmbeddingTable::new(self.embedding.weight.val());
        let mut last = Vec::new();
        let mut states: Option<Tensor<3>> = None;
        for (layer, gru) in self.forward.iter().enumerate() {
            let run = |gru: &Gru, steps: &Steps| {
                let gates = match &states {
                    None => token_gates(gru, &embedding, source.tokens()),
                    Some(states) => gru.gates(states.clone()),
                };
                gru.forward_gates(gates, None, steps)
            };
            let (outputs, end) = run(gru, &in_order);
            let (outputs, end) = match self.backward.get(layer) {
                Some(gru) => {
                    let (backward, backward_end) = run(gru, &in_order.clone().reversed());
                    (
                        Tensor::cat(vec![outputs, backward], 2),
                        Tensor::cat(vec![end, backward_end], 1),
                    )
                }
                None => (outputs, end),
            };
            states = Some(outputs);
            last.push(end);
        }
        Encoded {
            states: states.expect("a configuration has at least one layer"),
            last,
        }
    }
}
