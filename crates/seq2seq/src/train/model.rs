//! The settings of a model and its training.

use attention_seq2seq::model::{ModelConfig, ModelKind};
use attention_seq2seq::{Seq2SeqConfig, TrainConfig, TransformerConfig, Vocabs};

use super::settings::Settings;

impl Settings {
    /// The settings of the model.
    pub(super) fn model(&self, vocabs: &Vocabs) -> ModelConfig {
        let (source, target) = (vocabs.source.len(), vocabs.target.len());
        match self.model.unwrap_or_default() {
            ModelKind::Rnn => {
                let config = Seq2SeqConfig::new(source, target);
                Seq2SeqConfig {
                    hidden_size: self.hidden.unwrap_or(config.hidden_size),
                    layers: self.layers.unwrap_or(config.layers),
                    embedding_size: self.embedding.unwrap_or(config.embedding_size),
                    bidirectional: !self.unidirectional.unwrap_or(!config.bidirectional),
                    cell: self.cell.map_or(config.cell, Into::into),
                    dropout: self.dropout.unwrap_or(config.dropout),
                    embedding_dropout: self.embedding_dropout.unwrap_or(config.embedding_dropout),
                    layer_dropout: self.layer_dropout.unwrap_or(config.layer_dropout),
                    ..config
                }
                .into()
            }
            ModelKind::Transformer => {
                let config = TransformerConfig::new(source, target);
                let hidden_size = self.hidden.unwrap_or(config.hidden_size);
                let twice = hidden_size.saturating_mul(2);
                TransformerConfig {
                    hidden_size,
                    layers: self.layers.unwrap_or(config.layers),
                    heads: self.heads.unwrap_or(config.heads),
                    feed_forward_size: self.feed_forward.unwrap_or(twice),
                    dropout: self.dropout.unwrap_or(config.dropout),
                    ..config
                }
                .into()
            }
        }
    }

    /// The settings of the training on `pairs` pairs, from files or a task.
    pub(super) fn train(&self, pairs: usize, is_file: bool) -> TrainConfig {
        let defaults = TrainConfig::of(self.model.unwrap_or_default());
        let epochs = defaults.epochs * if is_file { 2 } else { 1 };
        let train = self.train_over(defaults);
        let steps_of_epoch = pairs.div_ceil(train.batch_size.max(1)).max(1);
        let of_steps = self.steps.map(|steps| steps.div_ceil(steps_of_epoch));
        TrainConfig {
            epochs: self.epochs.or(of_steps).unwrap_or(epochs),
            steps: self.steps,
            max_minutes: self.max_time.or(train.max_minutes),
            ..train
        }
    }
}
