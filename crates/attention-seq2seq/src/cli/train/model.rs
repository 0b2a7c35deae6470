//! The model that the arguments of `seq2seq train` describe.

use attention_seq2seq::{
    Error, ModelConfig, ModelKind, Result, Seq2SeqConfig, TransformerConfig, Vocabs,
};

use super::TrainArgs;

impl TrainArgs {
    /// Refuses settings of the other model.
    pub(super) fn check_model(&self) -> Result<()> {
        let of_rnn = [
            ("--cell", self.cell.is_some()),
            ("--embedding", self.embedding.is_some()),
            ("--unidirectional", self.unidirectional),
        ];
        let of_transformer = [
            ("--heads", self.heads.is_some()),
            ("--feed-forward", self.feed_forward.is_some()),
        ];
        let (others, other) = match self.model {
            ModelKind::Rnn => (&of_transformer[..], ModelKind::Transformer),
            ModelKind::Transformer => (&of_rnn[..], ModelKind::Rnn),
        };
        match others.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((name, _)) => Err(Error::Config {
                what: name.to_string(),
                expected: format!("--model {other}"),
                found: format!("--model {}", self.model),
            }),
        }
    }

    /// The settings of the model.
    pub(super) fn model_config(&self, vocabs: &Vocabs) -> ModelConfig {
        let (source, target) = (vocabs.source.len(), vocabs.target.len());
        match self.model {
            ModelKind::Rnn => {
                let config = Seq2SeqConfig::new(source, target);
                Seq2SeqConfig {
                    hidden_size: self.hidden,
                    layers: self.layers.unwrap_or(config.layers),
                    embedding_size: self.embedding.unwrap_or(config.embedding_size),
                    bidirectional: !self.unidirectional,
                    cell: self.cell.unwrap_or(config.cell),
                    dropout: self.dropout,
                    ..config
                }
                .into()
            }
            ModelKind::Transformer => {
                let config = TransformerConfig::new(source, target);
                let twice = self.hidden.saturating_mul(2);
                TransformerConfig {
                    hidden_size: self.hidden,
                    layers: self.layers.unwrap_or(config.layers),
                    heads: self.heads.unwrap_or(config.heads),
                    feed_forward_size: self.feed_forward.unwrap_or(twice),
                    dropout: self.dropout,
                    ..config
                }
                .into()
            }
        }
    }
}
