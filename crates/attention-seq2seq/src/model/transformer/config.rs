//! The configuration of a Transformer.

use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, ScoringFunction};
use attention_transformers::{
    PositionEmbeddingConfig, TokenEmbeddingConfig, TransformerDecoderConfig,
    TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::config::Config;
use burn::nn::LinearConfig;
use burn::tensor::Device;

use super::Transformer;
use crate::error::Error;
use crate::model::checks::{check_dropout, check_layers, check_parameters, check_sizes};

/// Configuration of a [`Transformer`].
///
/// ```
/// use attention_seq2seq::{Seq2SeqModel, TransformerConfig};
/// use attention_seq2seq::data::Source;
/// use burn::tensor::Device;
///
/// let device = Device::flex();
/// let model = TransformerConfig::new(13, 11).with_hidden_size(8).init(&device);
///
/// let source = Source::new([&[5, 4, 6][..], &[7]], &device);
/// let translation = model.greedy(&source, 9, true);
/// assert!(translation.tokens.iter().all(|tokens| tokens.len() <= 9));
/// assert_eq!(translation.weights[0].dims(), [2, 4]); // the longest source and its end
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct TransformerConfig {
    /// The number of source tokens.
    pub source_vocab_size: usize,
    /// The number of target tokens.
    pub target_vocab_size: usize,
    /// The feature dimension of a row, of encoder and decoder. PyTorch's `d_model`.
    #[config(default = 128)]
    pub hidden_size: usize,
    /// The number of heads of each attention.
    #[config(default = 4)]
    pub heads: usize,
    /// The number of layers, of encoder and decoder.
    #[config(default = 2)]
    pub layers: usize,
    /// The number of hidden units of a feed-forward network. PyTorch's `dim_feedforward`.
    #[config(default = 256)]
    pub feed_forward_size: usize,
    /// The probability to drop, while training, an element of an embedding or of a sublayer's output.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl TransformerConfig {
    /// Checks the settings; returns a one-line error where [`init`](Self::init) would panic.
    pub(crate) fn check(&self) -> crate::error::Result<()> {
        check_sizes(&[
            ("the hidden size", self.hidden_size),
            ("the number of heads", self.heads),
            ("the number of layers", self.layers),
            ("the feed-forward size", self.feed_forward_size),
        ])?;
        check_layers(self.layers)?;
        if !self.hidden_size.is_multiple_of(self.heads) {
            let expected = format!("a divisor of the hidden size {}", self.hidden_size);
            return Err(Error::config("the number of heads", &expected, self.heads));
        }
        check_dropout(self.dropout)?;
        check_parameters(self.parameters())
    }

    /// The number of parameters, except those of the score of the attention to the source. Settings from outside may
    /// make it exceed any integer.
    pub(crate) fn parameters(&self) -> f64 {
        let [hidden, feed_forward, layers] =
            [self.hidden_size, self.feed_forward_size, self.layers].map(|size| size as f64);
        let vocabs = [self.source_vocab_size, self.target_vocab_size].map(|size| size as f64);
        let attention = 4.0 * hidden * (hidden + 1.0);
        let feed_forward = feed_forward * (2.0 * hidden + 1.0) + hidden;
        let norm = 2.0 * hidden;
        let encoder = layers * (attention + feed_forward + 2.0 * norm) + norm;
        let decoder = layers * (2.0 * attention + feed_forward + 3.0 * norm) + norm;
        let embeddings = hidden * (vocabs[0] + vocabs[1]);
        embeddings + encoder + decoder + (hidden + 1.0) * vocabs[1]
    }

    /// The size of a query and key within a head.
    pub(crate) fn head_size(&self) -> usize {
        self.hidden_size / self.heads
    }

    /// A model with scaled dot-product attention and new random parameters.
    ///
    /// # Panics
    /// If a size or a number is 0, `heads` does not divide `hidden_size`, or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> Transformer<DotProductScore> {
        self.init_with(|_| DotProductScoreConfig::new().init(), device)
    }

    /// A model whose decoder attends to the source with the scores that `score` makes from the index of each layer, for
    /// queries and keys of `hidden_size / heads`. Each layer should have its own score: a cloned module shares the
    /// identity of its parameters, which optimizers use. [`AttentionKind::score`] makes the scores that the program
    /// offers.
    ///
    /// [`AttentionKind::score`]: crate::AttentionKind::score
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<C: ScoringFunction>(
        &self,
        score: impl FnMut(usize) -> C,
        device: &Device,
    ) -> Transformer<C> {
        let size = self.hidden_size;
        let embedding = |vocab_size| {
            TokenEmbeddingConfig::new(vocab_size, size)
                .with_positions(PositionEmbeddingConfig::Unbounded)
                .with_scaled(true)
                .with_dropout(self.dropout)
                .init(device)
        };
        let layer = TransformerLayerConfig::new(size, self.heads, self.feed_forward_size)
            .with_dropout(self.dropout);
        let dot = |_| DotProductScoreConfig::new().init();
        Transformer {
            source_embedding: embedding(self.source_vocab_size),
            encoder: TransformerEncoderConfig::new(layer.clone(), self.layers).init(device),
            target_embedding: embedding(self.target_vocab_size),
            decoder: TransformerDecoderConfig::new(layer, self.layers)
                .init_with(dot, score, device),
            output: LinearConfig::new(size, self.target_vocab_size).init(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;

    use super::*;
    use crate::device::test_device;

    #[test]
    fn parameters_are_those_of_the_model_without_its_score() {
        for layers in [1, 3] {
            let config = TransformerConfig::new(13, 11)
                .with_hidden_size(6)
                .with_heads(3)
                .with_feed_forward_size(7)
                .with_layers(layers);
            let model = config.init(&test_device());
            assert_eq!(model.num_params() as f64, config.parameters(), "{config}");
        }
    }
}
