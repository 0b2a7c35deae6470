//! The source of a run's pairs: a task or files.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::Pairs;
use crate::data::corpus::Corpus;
use crate::data::pair_file::{PairFile, PairFileOptions};
use crate::data::tasks::Task;
use crate::error::Result;
use crate::memory;
use crate::text::tokenizer::Tokenizer;

/// The source of a run's pairs: a task or files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataSource {
    /// A generated task.
    Task {
        /// The task.
        task: Task,
        /// The number of training pairs.
        train: usize,
        /// The number of validation pairs, with other sources.
        valid: usize,
    },
    /// Files of pairs.
    #[serde(rename = "tsv")]
    Files {
        /// The file of the training pairs.
        train: PathBuf,
        /// The file of the validation pairs; without it, 5 % of the sources of `train` are held out.
        valid: Option<PathBuf>,
        /// The format of the files, and the tokenization of texts.
        options: PairFileOptions,
    },
}

impl DataSource {
    /// Generates or reads the pairs. The seed determines which pairs are generated or held out.
    ///
    /// # Errors
    /// If a file is missing, a line is not a pair, there are no training or no validation pairs, or the pairs of a task
    /// do not fit into free memory.
    pub fn pairs(&self, seed: u64) -> Result<Pairs> {
        Ok(self.corpus(seed)?.into_pairs())
    }

    /// As [`pairs`](Self::pairs), but keeps the pairs of files as texts.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub fn corpus(&self, seed: u64) -> Result<Corpus> {
        match self {
            Self::Task { task, train, valid } => {
                // Two vectors of short strings each.
                const BYTES_OF_PAIR: f64 = 2048.0;
                let count = *train as f64 + *valid as f64;
                memory::check("the memory of the pairs", BYTES_OF_PAIR * count)?;
                let pairs = task.train_valid(*train, *valid, seed);
                Corpus::of_pairs(&pairs, task.tokenization()).checked()
            }
            Self::Files {
                train,
                valid,
                options,
            } => {
                let valid = valid.as_ref().map(PairFile::read).transpose()?;
                Corpus::of_files(&PairFile::read(train)?, valid.as_ref(), options, seed)
            }
        }
    }

    pub(crate) fn each_file(&mut self, mut change: impl FnMut(&mut PathBuf)) {
        if let Self::Files { train, valid, .. } = self {
            change(train);
            valid.as_mut().map(change);
        }
    }

    pub(crate) fn source_tokens(&self) -> Tokenizer {
        match self {
            Self::Task { task, .. } => task.tokenization().into(),
            Self::Files { options, .. } => options.source(),
        }
    }

    pub(crate) fn target_tokens(&self) -> Tokenizer {
        match self {
            Self::Task { task, .. } => task.tokenization().into(),
            Self::Files { options, .. } => options.target(),
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task { task, .. } => write!(f, "task {task}"),
            Self::Files { train, .. } => write!(f, "file {}", train.display()),
        }
    }
}
