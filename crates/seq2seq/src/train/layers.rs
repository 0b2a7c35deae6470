//! The layers of settings: a preset below, a file over it, the command line on top.

use std::path::Path;

use attention_seq2seq::model::{ModelConfig, ModelKind};
use attention_seq2seq::{DataSource, Error, Result, RunConfig};

use super::presets::Preset;
use super::settings::{Group, Settings};

impl Settings {
    /// These settings, completed by those in `file`.
    pub(super) fn over_file(&self, file: Option<&Path>) -> Result<Self> {
        let of_file = file.map(read).transpose()?.unwrap_or_default();
        Ok(of_file.overlaid(self))
    }

    /// These settings, completed by those of the preset for this number of pairs. The file of a preset has no settings
    /// of the data.
    pub(super) fn over_preset(&self, preset: Option<Preset>, pairs: usize) -> Self {
        let of_preset = preset.map(|preset| preset.settings(pairs));
        of_preset.unwrap_or_default().overlaid(self)
    }

    /// These settings, without those that `other` has.
    fn overlaid(mut self, other: &Self) -> Self {
        // Either of them determines the length of training.
        if other.epochs.is_some() {
            self.steps = None;
        }
        if other.steps.is_some() {
            self.epochs = None;
        }
        other.clone().or(self)
    }

    /// Refuses settings for the other kind of pairs: those of files, or of a task.
    pub(super) fn check_data(&self, is_file: bool) -> Result<()> {
        match is_file {
            true => self.refuse(Group::Tasks, "a task", "--data"),
            false => self.refuse(Group::Files, "--data", "a task"),
        }
    }

    /// Refuses settings of another kind of model.
    pub(super) fn check_model(&self) -> Result<()> {
        let model = self.model.unwrap_or_default();
        let (others, other) = match model {
            ModelKind::Rnn => (Group::Transformer, ModelKind::Transformer),
            ModelKind::Transformer => (Group::Rnn, ModelKind::Rnn),
        };
        let [expected, found] = [other, model].map(|it| format!("--model {it}"));
        self.refuse(others, &expected, &found)
    }

    fn refuse(&self, group: Group, expected: &str, found: &str) -> Result<()> {
        match self.given_of(group) {
            None => Ok(()),
            Some(name) => Err(Error::config(name, expected, found)),
        }
    }

    /// The settings of a run: all that its data and its model have.
    pub(crate) fn of(run: &RunConfig) -> Self {
        let train = &run.train;
        let all = Self {
            model: Some(run.model.kind()),
            attention: Some(run.attention),
            // Either of them determines the length of training, for any number of pairs.
            epochs: train.steps.is_none().then_some(train.epochs),
            steps: train.steps,
            max_time: train.max_minutes,
            min_count: Some(run.vocab_limits.min_count),
            max_vocab: run.vocab_limits.max_tokens,
            ..Self::of_train(train)
        };
        let of_model = match &run.model {
            ModelConfig::Rnn(model) => Self {
                hidden: Some(model.hidden_size),
                layers: Some(model.layers),
                cell: Some(model.cell.into()),
                embedding: Some(model.embedding_size),
                unidirectional: Some(!model.bidirectional),
                dropout: Some(model.dropout),
                embedding_dropout: Some(model.embedding_dropout),
                layer_dropout: Some(model.layer_dropout),
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
            DataSource::Files { options, .. } => of_model.with_options(options),
        }
    }

    /// The settings as a file, without the final line end.
    pub(crate) fn to_toml(&self) -> String {
        let text = toml::to_string(self).expect("settings are names with numbers and texts");
        text.trim_end().to_string()
    }
}

fn read(file: &Path) -> Result<Settings> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::io("read", file, source))?;
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = &text[..start];
        let line = 1 + before.matches('\n').count();
        let what = format!("{}:{line}", file.display());
        let expected = "settings of `seq2seq train`, such as batch-size = 128";
        Error::config(what, expected, error.message().replace('\n', " "))
    })
}
