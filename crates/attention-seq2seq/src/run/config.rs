//! The settings of a run.

use std::path::Path;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::{DataSource, TrainConfig};
use crate::attention::AttentionKind;
use crate::data::Pair;
use crate::error::{Error, Result};
use crate::memory;
use crate::model::{AnyModel, ModelConfig, ModelKind};
use crate::text::vocab_limits::VocabLimits;

/// The largest number of tokens of an output.
const MOST_OUTPUT: usize = 1_000_000;

/// All settings of a run, as saved beside its model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunConfig {
    /// The attention of the decoder to the source.
    pub attention: AttentionKind,
    /// The model and its sizes.
    pub model: ModelConfig,
    /// How the model is trained.
    pub train: TrainConfig,
    /// The pairs for training and validation.
    pub data: DataSource,
    /// Limits the tokens of the pairs to those of the vocabularies.
    #[serde(default)]
    pub vocab_limits: VocabLimits,
    /// The [checksum](crate::data::Corpus::checksum) of the pairs, if known.
    pub data_checksum: Option<u32>,
    /// The number of tokens after which an output is cut off; a [`Translator`](crate::Translator) may set another.
    pub max_len: usize,
}

impl RunConfig {
    /// The settings of a new run, with the program's default attention and [`TrainConfig`] for this model.
    ///
    /// Outputs may be a quarter longer than the longest target of `pairs`, plus two tokens.
    pub fn new(model: impl Into<ModelConfig>, data: DataSource, pairs: &[Pair]) -> Self {
        let targets = pairs.iter().map(|pair| pair.target.len());
        Self::of_longest_target(model, data, targets.max().unwrap_or(0))
    }

    /// As [`new`](Self::new), for pairs whose longest target has `longest` tokens.
    pub fn of_longest_target(
        model: impl Into<ModelConfig>,
        data: DataSource,
        longest: usize,
    ) -> Self {
        let model = model.into();
        let kind = model.kind();
        Self {
            attention: AttentionKind::of(kind),
            model,
            train: TrainConfig::of(kind),
            data,
            vocab_limits: VocabLimits::default(),
            data_checksum: None,
            max_len: longest + longest / 4 + 2,
        }
    }

    /// Checks all settings, before training begins.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for the first setting out of its range.
    pub fn check(&self) -> Result<()> {
        self.train.check()?;
        self.model.check()?;
        self.check_attention()?;
        self.vocab_limits.check()?;
        check_max_len(self.max_len)
    }

    /// Checks that the model supports the attention.
    fn check_attention(&self) -> Result<()> {
        let is_score = AttentionKind::SCORES.contains(&self.attention);
        if self.model.kind() == ModelKind::Rnn || is_score {
            return Ok(());
        }
        let scores = AttentionKind::SCORES.iter();
        let scores: Vec<String> = scores.map(AttentionKind::to_string).collect();
        let scores = scores.join(", ");
        let expected = format!("a score for the heads of a transformer ({scores})");
        Err(Error::config("the attention", expected, self.attention))
    }

    /// Checks that training the model fits into memory, as far as the system reports how much is free for this process
    /// (within its own limits and those of its control group): its parameters, their gradients and the two moments of
    /// each. On a GPU these are in the GPU's memory, not in this one.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if it does not fit.
    pub fn check_memory(&self) -> Result<()> {
        const BYTES_OF_PARAMETER: f64 = 16.0;
        let what = "the memory of the model in training";
        memory::check(what, BYTES_OF_PARAMETER * self.model.parameters())
    }

    /// As [`check_memory`](Self::check_memory), for a model that is only loaded: its parameters, and their file.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if it does not fit.
    pub fn check_memory_to_load(&self) -> Result<()> {
        const BYTES_OF_PARAMETER: f64 = 8.0;
        let bytes = BYTES_OF_PARAMETER * self.model.parameters();
        memory::check("the memory of the model", bytes)
    }

    /// Checks by their [checksum](crate::data::Corpus::checksum), if it is known, that these are the pairs of the run
    /// in `folder`; for the message, `expected` describes the right pairs, and what to do about others.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for other pairs.
    pub fn check_data(&self, checksum: u32, folder: &Path, expected: &str) -> Result<()> {
        if self.data_checksum.is_none_or(|before| before == checksum) {
            return Ok(());
        }
        let what = format!("the pairs of the run in {}", folder.display());
        Err(Error::config(what, expected, "others"))
    }

    /// A model with these settings and new random parameters.
    ///
    /// # Panics
    /// If [`check`](Self::check) reports an error in the settings of the model or the attention.
    pub fn init_model(&self, device: &Device) -> AnyModel {
        match &self.model {
            ModelConfig::Rnn(model) => {
                let attention = self.attention.init(model, device);
                AnyModel::Rnn(model.init(attention, device))
            }
            ModelConfig::Transformer(model) => {
                let score = |_| {
                    let score = self.attention.score(model.head_size(), device);
                    score.unwrap_or_else(|| panic!("RunConfig: {} is no score", self.attention))
                };
                AnyModel::Transformer(model.init_with(score, device))
            }
        }
    }
}

/// Checks the number of tokens after which an output is cut off.
pub(crate) fn check_max_len(max_len: usize) -> Result<()> {
    let what = "the length of outputs";
    if max_len == 0 {
        return Err(Error::config(what, "at least 1 token", max_len));
    }
    if max_len > MOST_OUTPUT {
        let expected = format!("at most {MOST_OUTPUT} tokens");
        return Err(Error::config(what, expected, max_len));
    }
    Ok(())
}
