//! The settings of either model.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Seq2SeqConfig, TransformerConfig};
use crate::error::Result;
use crate::variants::of_either;

/// The kind of a model that the program trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// A recurrent encoder and decoder with attention: a [`Seq2Seq`](crate::Seq2Seq).
    #[default]
    Rnn,
    /// An encoder and decoder of self-attention: a [`Transformer`](crate::Transformer).
    Transformer,
}

/// The name on the command line and in saved settings.
impl std::fmt::Display for ModelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// The settings of a model that the program trains, saved with its [`ModelKind`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ModelConfig {
    /// The settings of a [`Seq2Seq`](crate::Seq2Seq).
    Rnn(Seq2SeqConfig),
    /// The settings of a [`Transformer`](crate::Transformer).
    Transformer(TransformerConfig),
}

impl ModelConfig {
    /// The kind of the model.
    pub fn kind(&self) -> ModelKind {
        match self {
            Self::Rnn(_) => ModelKind::Rnn,
            Self::Transformer(_) => ModelKind::Transformer,
        }
    }

    /// The number of source tokens.
    pub fn source_vocab_size(&self) -> usize {
        of_either!(self, config => config.source_vocab_size)
    }

    /// The number of target tokens.
    pub fn target_vocab_size(&self) -> usize {
        of_either!(self, config => config.target_vocab_size)
    }

    pub(crate) fn check(&self) -> Result<()> {
        of_either!(self, config => config.check())
    }

    /// The number of parameters, except those of the attention's score.
    pub(crate) fn parameters(&self) -> f64 {
        of_either!(self, config => config.parameters())
    }
}

impl From<Seq2SeqConfig> for ModelConfig {
    fn from(config: Seq2SeqConfig) -> Self {
        Self::Rnn(config)
    }
}

impl From<TransformerConfig> for ModelConfig {
    fn from(config: TransformerConfig) -> Self {
        Self::Transformer(config)
    }
}

/// Runs saved before there were Transformers have no kind: their models are recurrent. Those saved before there was
/// dropout of embeddings and between layers have none.
impl<'de> Deserialize<'de> for ModelConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Saved {
            #[serde(default)]
            kind: ModelKind,
            #[serde(flatten)]
            settings: serde_json::Value,
        }
        let Saved { kind, mut settings } = Saved::deserialize(deserializer)?;
        if let (ModelKind::Rnn, Some(settings)) = (kind, settings.as_object_mut()) {
            for dropout in ["embedding_dropout", "layer_dropout"] {
                settings.entry(dropout).or_insert_with(|| 0.0.into());
            }
        }
        match kind {
            ModelKind::Rnn => serde_json::from_value(settings).map(Self::Rnn),
            ModelKind::Transformer => serde_json::from_value(settings).map(Self::Transformer),
        }
        .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_from_before_there_were_all_dropouts_are_read() {
        let saved = r#"{"kind": "rnn", "source_vocab_size": 13, "target_vocab_size": 11, "embedding_size": 32,
            "hidden_size": 128, "layers": 1, "bidirectional": true, "dropout": 0.2, "cell": "Lstm"}"#;
        let read: ModelConfig = serde_json::from_str(saved).unwrap();
        let config = Seq2SeqConfig::new(13, 11)
            .with_dropout(0.2)
            .with_cell(burn_fused_layers::recurrent::CellKind::Lstm);
        assert_eq!(read, ModelConfig::Rnn(config));
    }

    #[test]
    fn a_kind_that_there_is_not_is_an_error_with_those_that_there_are() {
        let error = serde_json::from_str::<ModelConfig>(r#"{"kind": "cnn"}"#).unwrap_err();
        let line = error.to_string();
        let kinds = "`cnn`, expected `rnn` or `transformer`";
        assert!(line.contains(kinds), "{line}");
        let error = serde_json::from_str::<ModelConfig>(r#"{"kind": "transformer"}"#);
        let line = error.unwrap_err().to_string();
        assert!(line.contains("missing field `source_vocab_size`"), "{line}");
    }
}
