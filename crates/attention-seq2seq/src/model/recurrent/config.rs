//! The configuration of a recurrent model.

use attention_core::stateful::StatefulAttention;
use burn::config::Config;
use burn::tensor::Device;
use burn_fused_layers::recurrent::CellKind;

use super::{Decoder, Encoder, Seq2Seq};
use crate::error::Error;
use crate::model::checks::{check_dropout, check_layers, check_parameters, check_sizes};

/// Configuration of a [`Seq2Seq`] model.
///
/// ```
/// use attention_seq2seq::{AttentionKind, Seq2SeqConfig, Seq2SeqModel};
/// use attention_seq2seq::data::Source;
/// use burn::tensor::Device;
///
/// let device = Device::flex();
/// let config = Seq2SeqConfig::new(13, 11).with_hidden_size(8);
/// let model = config.init(AttentionKind::Additive.init(&config, &device), &device);
///
/// let source = Source::new([&[5, 4, 6][..], &[7]], &device);
/// let translation = model.greedy(&source, 9, true);
/// assert!(translation.tokens.iter().all(|tokens| tokens.len() <= 9));
/// assert_eq!(translation.weights[0].dims(), [2, 3]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct Seq2SeqConfig {
    /// The number of source tokens.
    pub source_vocab_size: usize,
    /// The number of target tokens.
    pub target_vocab_size: usize,
    /// The feature dimension of a token's embedding, on both sides.
    #[config(default = 32)]
    pub embedding_size: usize,
    /// The feature dimension of states, in encoder and decoder.
    #[config(default = 128)]
    pub hidden_size: usize,
    /// The number of recurrent layers, in each of encoder and decoder.
    #[config(default = 1)]
    pub layers: usize,
    /// Whether the encoder reads the source in both directions.
    #[config(default = true)]
    pub bidirectional: bool,
    /// The probability to drop an attention weight or an output feature while training.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// The cell of the recurrent layers.
    #[config(default = "CellKind::Gru")]
    pub cell: CellKind,
    /// The probability to drop a feature of an embedding while training.
    #[config(default = 0.0)]
    pub embedding_dropout: f64,
    /// The probability to drop, while training, an output of a recurrent layer that feeds another layer.
    #[config(default = 0.0)]
    pub layer_dropout: f64,
}

impl Seq2SeqConfig {
    /// Checks the settings; returns a one-line error where [`init`](Self::init) would panic.
    pub(crate) fn check(&self) -> crate::error::Result<()> {
        check_sizes(&[
            ("the embedding size", self.embedding_size),
            ("the hidden size", self.hidden_size),
            ("the number of layers", self.layers),
        ])?;
        check_layers(self.layers)?;
        if self.bidirectional && !self.hidden_size.is_multiple_of(2) {
            let expected = "even, half for each direction of the encoder";
            return Err(Error::config("the hidden size", expected, self.hidden_size));
        }
        for dropout in [self.dropout, self.embedding_dropout, self.layer_dropout] {
            check_dropout(dropout)?;
        }
        check_parameters(self.parameters())
    }

    /// The number of parameters, except the attention's. Settings from outside may make it exceed any integer.
    pub(crate) fn parameters(&self) -> f64 {
        let [embedding, hidden, layers] =
            [self.embedding_size, self.hidden_size, self.layers].map(|size| size as f64);
        let vocabs = [self.source_vocab_size, self.target_vocab_size].map(|size| size as f64);
        let gates = match self.cell {
            CellKind::Gru => 3.0,
            CellKind::Lstm => 4.0,
        };
        let layer = |input: f64, size: f64| gates * size * (input + size + 2.0);
        let stack = |input: f64, directions: f64| {
            let size = hidden / directions;
            directions * (layer(input, size) + (layers - 1.0) * layer(hidden, size))
        };
        let encoder = stack(embedding, if self.bidirectional { 2.0 } else { 1.0 });
        let decoder = stack(embedding + hidden, 1.0) + layers * hidden * (hidden + 1.0);
        let output = (2.0 * hidden + 1.0) * vocabs[1];
        embedding * (vocabs[0] + vocabs[1]) + encoder + decoder + output
    }

    /// A model with new random parameters, whose decoder attends to the source with `attention`.
    ///
    /// Queries, keys and values have the size `hidden_size`, and so must contexts. [`AttentionKind::init`] makes the
    /// attentions that the program offers; any other works as well.
    ///
    /// [`AttentionKind::init`]: crate::attention::AttentionKind::init
    ///
    /// # Panics
    /// If a size is 0, a dropout is not in `[0, 1)`, or `hidden_size` is odd and the encoder bidirectional.
    pub fn init<A: StatefulAttention>(&self, attention: A, device: &Device) -> Seq2Seq<A> {
        assert!(
            self.layers > 0,
            "Seq2SeqConfig: layers expected at least 1, got 0"
        );
        Seq2Seq {
            encoder: Encoder::new(self, device),
            decoder: Decoder::new(self, attention, device),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;

    use super::*;
    use crate::attention::AttentionKind;
    use crate::device::test_device;

    #[test]
    fn parameters_are_those_of_the_model_without_its_attention() {
        let device = test_device();
        for (layers, bidirectional, cell) in [
            (1, true, CellKind::Gru),
            (3, true, CellKind::Gru),
            (2, false, CellKind::Gru),
            (1, false, CellKind::Lstm),
            (2, true, CellKind::Lstm),
        ] {
            let config = Seq2SeqConfig::new(13, 11)
                .with_embedding_size(5)
                .with_hidden_size(6)
                .with_layers(layers)
                .with_bidirectional(bidirectional)
                .with_cell(cell);
            let model = config.init(AttentionKind::Dot.init(&config, &device), &device);
            assert_eq!(model.num_params() as f64, config.parameters(), "{config}");
        }
    }
}
