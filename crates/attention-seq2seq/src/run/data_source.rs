//! The source of a run's pairs: a task or files.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::corpus::Corpus;
use crate::data::Pairs;
use crate::error::Result;
use crate::memory;
use crate::pair_file::{PairFile, PairFileOptions};
use crate::tasks::Task;
use crate::tokenizer::Tokenizer;

/// The source of a run's pairs: a task or files.
///
/// ```
/// use attention_seq2seq::{DataSource, Task};
///
/// let data = DataSource::Task { task: Task::Dates, train: 100, valid: 10 };
/// let pairs = data.pairs(42)?;
/// assert_eq!((pairs.train.len(), pairs.valid.len()), (100, 10));
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataSource {
    /// A generated task.
    Task {
        /// The task.
        task: Task,
        /// The number of pairs to learn from.
        train: usize,
        /// The number of pairs to validate on, of other sources.
        valid: usize,
    },
    /// Files of pairs.
    #[serde(rename = "tsv")]
    Files {
        /// The file of the pairs to learn from.
        train: PathBuf,
        /// The file of the pairs to validate on; without it, 5 % of the sources of `train` are held out.
        valid: Option<PathBuf>,
        /// Their format, and how texts become tokens.
        options: PairFileOptions,
    },
}

impl DataSource {
    /// Generates or reads the pairs. The seed decides which are generated or held out.
    ///
    /// # Errors
    /// If a file is missing, a line of it is not a pair, there are no pairs to learn from or to validate on, or those
    /// of a task do not fit into the memory that is free.
    pub fn pairs(&self, seed: u64) -> Result<Pairs> {
        Ok(self.corpus(seed)?.into_pairs())
    }

    /// As [`pairs`](Self::pairs), those of files as texts.
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
                Corpus::from(task.train_valid(*train, *valid, seed)).checked()
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

    /// Changes the paths of its files.
    pub(crate) fn each_file(&mut self, mut change: impl FnMut(&mut PathBuf)) {
        if let Self::Files { train, valid, .. } = self {
            change(train);
            valid.as_mut().map(change);
        }
    }

    /// How a source is split into tokens.
    pub(crate) fn source_tokens(&self) -> Tokenizer {
        match self {
            Self::Task { task, .. } => task.tokenization().into(),
            Self::Files { options, .. } => options.source(),
        }
    }

    /// How a target is split into tokens.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::fs;

    use super::*;
    use crate::tokens::Tokenization::{Chars, Spaces};

    #[test]
    fn data_has_a_name() {
        let task = |task, train| DataSource::Task {
            task,
            train,
            valid: 1,
        };
        let file = |train: &str, valid: Option<&str>| DataSource::Files {
            train: train.into(),
            valid: valid.map(PathBuf::from),
            options: PairFileOptions::new(Chars, Chars),
        };
        assert_eq!(task(Task::Copy, 1).to_string(), "task copy");
        assert_eq!(file("a/b.tsv", None).to_string(), "file a/b.tsv");
    }

    #[test]
    fn data_without_pairs_on_one_side_is_an_error() {
        for (train, valid, side) in [(0, 3, "training"), (3, 0, "validation")] {
            let data = DataSource::Task {
                task: Task::Copy,
                train,
                valid,
            };
            let line = data.pairs(0).unwrap_err().to_string();
            let expected = format!("there are no {side} pairs; give at least one pair");
            assert!(line.starts_with(&expected), "{line}");
        }
    }

    #[test]
    fn pairs_of_a_file_are_split_by_the_seed_unless_validation_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, lines: std::ops::Range<usize>| {
            let path = folder.path().join(name);
            let lines: String = lines.map(|at| format!("s{at}\tt{at}\n")).collect();
            fs::write(&path, lines).unwrap();
            path
        };
        let options = PairFileOptions::new(Spaces, Spaces);
        let train = file("train.tsv", 0..40);
        let mut data = DataSource::Files {
            train: train.clone(),
            valid: None,
            options: options.clone(),
        };
        let split = data.pairs(1).unwrap();
        assert_eq!((split.train.len(), split.valid.len()), (38, 2));
        assert_eq!(data.pairs(1).unwrap(), split);
        assert_ne!(data.pairs(2).unwrap(), split);

        data = DataSource::Files {
            train,
            valid: Some(file("valid.tsv", 40..43)),
            options,
        };
        let pairs = data.pairs(1).unwrap();
        assert_eq!((pairs.train.len(), pairs.valid.len()), (40, 3));
        assert_eq!(pairs.valid[0].source, ["s40"]);
    }
}
