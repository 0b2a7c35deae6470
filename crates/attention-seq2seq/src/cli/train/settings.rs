//! The settings of `seq2seq train`, from the command line, a file, or a preset.

use std::path::Path;

use attention_seq2seq::{
    AttentionKind, Columns, DataSource, Error, ModelConfig, ModelKind, Result, RunConfig,
    Tokenization,
};
use burn_fused_layers::recurrent::CellKind;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::presets::Preset;

/// The settings that a resumed run keeps, and what would set them.
pub(super) const KEPT_BY_RESUME: [&str; 23] = [
    "preset",
    "config",
    "valid",
    "columns",
    "source_tokens",
    "target_tokens",
    "max_tokens",
    "train_pairs",
    "valid_pairs",
    "model",
    "attention",
    "cell",
    "embedding",
    "unidirectional",
    "heads",
    "feed_forward",
    "hidden",
    "layers",
    "dropout",
    "batch_size",
    "warmup",
    "clip",
    "seed",
];

/// Settings, each of which may be left to a preset or the defaults. In a file they are named as on the command line.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Settings {
    /// The columns of source and target, from 1 [default: 1,2].
    #[arg(
        long,
        value_name = "SOURCE,TARGET",
        requires = "data",
        conflicts_with = "task"
    )]
    #[serde(default, with = "as_text")]
    pub(super) columns: Option<Columns>,
    /// The tokens of a source: spaces (U+0020 alone separates) or chars [default: guessed from the file].
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) source_tokens: Option<Tokenization>,
    /// The tokens of a target: spaces (U+0020 alone separates) or chars [default: guessed from the file].
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) target_tokens: Option<Tokenization>,
    /// The most tokens of a source or a target; a file with a longer one is refused [default: 1000].
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) max_tokens: Option<usize>,
    /// The number of pairs of a task generated to learn from [default: 24000].
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "data"
    )]
    pub(super) train_pairs: Option<usize>,
    /// The number of pairs of a task generated to validate on, of other sources [default: 1000].
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "data"
    )]
    pub(super) valid_pairs: Option<usize>,

    /// The model [default: rnn].
    #[arg(long, value_enum)]
    pub(super) model: Option<ModelKind>,
    /// The attention of the decoder to the source; a Transformer takes those from additive to gaussian [default:
    /// additive, of a Transformer dot].
    #[arg(long, value_enum)]
    pub(super) attention: Option<AttentionKind>,
    /// The feature dimension of a state of encoder and decoder [default: 128].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) hidden: Option<usize>,
    /// The number of layers of encoder and decoder [default: 1, of a Transformer 2].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) layers: Option<usize>,
    /// The recurrent cell of encoder and decoder [default: gru].
    #[arg(long, value_enum)]
    pub(super) cell: Option<Cell>,
    /// The feature dimension of a token's embedding, before recurrent layers [default: 32].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) embedding: Option<usize>,
    /// Read the source left to right only, by recurrent layers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(super) unidirectional: Option<bool>,
    /// The number of heads of each attention of a Transformer [default: 4].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) heads: Option<usize>,
    /// The number of hidden units of the feed-forward networks of a Transformer [default: twice --hidden].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) feed_forward: Option<usize>,
    /// The probability to drop an attention weight or an output feature while training; of a Transformer, an element of
    /// an embedding or of what a sublayer adds [default: 0].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) dropout: Option<f64>,

    /// The number of times that every pair is visited [default: 3 for a task, 6 for a file; of a Transformer 10
    /// and 20].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) epochs: Option<usize>,
    /// The number of pairs in a step [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) batch_size: Option<usize>,
    /// Adam's learning rate at the start; it falls along a cosine [default: 0.004, of a Transformer 0.002].
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub(super) learning_rate: Option<f64>,
    /// The number of steps in which the learning rate first rises, linearly, at most a quarter of all [default: 0, of a
    /// Transformer 400].
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true)]
    pub(super) warmup: Option<usize>,
    /// The norm to which the gradient of all parameters together is clipped, at most 1e18 [default: 1]. A step whose
    /// gradient or loss is not finite changes nothing and is named on the standard error; after ten in a row training
    /// ends with exit code 2.
    #[arg(long, value_name = "NORM", allow_negative_numbers = true)]
    pub(super) clip: Option<f32>,
    /// Stop after this many epochs without a lower validation loss [default: 3].
    #[arg(long, value_name = "EPOCHS", allow_negative_numbers = true)]
    pub(super) patience: Option<usize>,
    /// The seed of data, parameters and dropout [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) seed: Option<u64>,
}

/// The name of a recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cell {
    /// a gated recurrent unit
    Gru,
    /// a long short-term memory
    Lstm,
}

impl From<Cell> for CellKind {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Gru => Self::Gru,
            Cell::Lstm => Self::Lstm,
        }
    }
}

impl From<CellKind> for Cell {
    fn from(cell: CellKind) -> Self {
        match cell {
            CellKind::Gru => Self::Gru,
            CellKind::Lstm => Self::Lstm,
        }
    }
}

impl Settings {
    /// These settings, those that are not given as in `file` and then as in the preset.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Config`] if it does not hold settings alone.
    pub(super) fn over(&self, file: Option<&Path>, preset: Option<Preset>) -> Result<Self> {
        let of_preset = preset.map(Preset::settings).unwrap_or_default();
        let of_file = file.map(read).transpose()?.unwrap_or_default();
        Ok(of_preset.overlaid(&of_file).overlaid(self))
    }

    /// These settings, but for those that `other` has.
    fn overlaid(&self, other: &Self) -> Self {
        let table = |settings: &Self| {
            toml::Table::try_from(settings).expect("settings are names with numbers and texts")
        };
        let mut all = table(self);
        all.extend(table(other));
        all.try_into().expect("settings of settings")
    }

    /// Refuses settings for pairs of another kind: of files, or of a task.
    ///
    /// # Errors
    /// [`Error::Config`] for the first of them.
    pub(super) fn check_data(&self, is_file: bool) -> Result<()> {
        let of_files = [
            ("--columns", self.columns.is_some()),
            ("--source-tokens", self.source_tokens.is_some()),
            ("--target-tokens", self.target_tokens.is_some()),
            ("--max-tokens", self.max_tokens.is_some()),
        ];
        let of_tasks = [
            ("--train-pairs", self.train_pairs.is_some()),
            ("--valid-pairs", self.valid_pairs.is_some()),
        ];
        let (others, expected, found) = if is_file {
            (&of_tasks[..], "a task", "--data")
        } else {
            (&of_files[..], "--data", "a task")
        };
        refuse(others, expected, found)
    }

    /// Refuses settings of another model than that of these settings.
    ///
    /// # Errors
    /// [`Error::Config`] for the first of them.
    pub(super) fn check_model(&self) -> Result<()> {
        let of_rnn = [
            ("--cell", self.cell.is_some()),
            ("--embedding", self.embedding.is_some()),
            ("--unidirectional", self.unidirectional.is_some()),
        ];
        let of_transformer = [
            ("--heads", self.heads.is_some()),
            ("--feed-forward", self.feed_forward.is_some()),
        ];
        let model = self.model.unwrap_or_default();
        let (others, other) = match model {
            ModelKind::Rnn => (&of_transformer[..], ModelKind::Transformer),
            ModelKind::Transformer => (&of_rnn[..], ModelKind::Rnn),
        };
        refuse(
            others,
            &format!("--model {other}"),
            &format!("--model {model}"),
        )
    }

    /// The settings of a run, every one that its data and its model have.
    pub(crate) fn of(run: &RunConfig) -> Self {
        let train = run.train.clone();
        let all = Self {
            model: Some(run.model.kind()),
            attention: Some(run.attention),
            epochs: Some(train.epochs),
            batch_size: Some(train.batch_size),
            learning_rate: Some(train.learning_rate),
            warmup: Some(train.warmup),
            clip: Some(train.clip),
            patience: Some(train.patience),
            seed: Some(train.seed),
            ..Self::default()
        };
        let of_model = match &run.model {
            ModelConfig::Rnn(model) => Self {
                hidden: Some(model.hidden_size),
                layers: Some(model.layers),
                cell: Some(model.cell.into()),
                embedding: Some(model.embedding_size),
                unidirectional: Some(!model.bidirectional),
                dropout: Some(model.dropout),
                ..all
            },
            ModelConfig::Transformer(model) => Self {
                hidden: Some(model.hidden_size),
                layers: Some(model.layers),
                heads: Some(model.heads),
                feed_forward: Some(model.feed_forward_size),
                dropout: Some(model.dropout),
                ..all
            },
        };
        match &run.data {
            DataSource::Task { train, valid, .. } => Self {
                train_pairs: Some(*train),
                valid_pairs: Some(*valid),
                ..of_model
            },
            DataSource::Tsv { options, .. } => Self {
                columns: Some(options.columns),
                source_tokens: Some(options.source_tokens),
                target_tokens: Some(options.target_tokens),
                max_tokens: Some(options.max_tokens),
                ..of_model
            },
        }
    }

    /// The settings as a file, without the line end of its last line.
    pub(crate) fn to_toml(&self) -> String {
        let text = toml::to_string(self).expect("settings are names with numbers and texts");
        text.trim_end().to_string()
    }
}

/// Refuses settings that are given.
fn refuse(settings: &[(&str, bool)], expected: &str, found: &str) -> Result<()> {
    match settings.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => Err(Error::Config {
            what: name.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
        }),
    }
}

/// Reads a file of settings.
fn read(file: &Path) -> Result<Settings> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::Io {
        action: "read",
        path: file.to_path_buf(),
        source,
    })?;
    toml::from_str(&text).map_err(|error| {
        let before = error
            .span()
            .map_or("", |span| &text[..span.start.min(text.len())]);
        Error::Config {
            what: format!("{}:{}", file.display(), 1 + before.matches('\n').count()),
            expected: "settings of `seq2seq train`, such as batch-size = 128".to_string(),
            found: error.message().replace('\n', " "),
        }
    })
}

/// A setting as the text that it is on the command line.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        setting: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        setting.as_ref().map(T::to_string).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let setting = text.map(|text| text.parse().map_err(D::Error::custom));
        setting.transpose()
    }
}
