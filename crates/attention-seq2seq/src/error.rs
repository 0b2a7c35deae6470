//! Errors of files, vocabularies and settings.

use std::io;
use std::path::{Path, PathBuf};

use attention_transformers::generate::search::SearchError;

/// A result whose error is this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of files, vocabularies or settings: one line with what was expected, what came and what to do.
///
/// The line includes its cause, so printing the error alone is enough.
///
/// ```
/// use attention_seq2seq::{Error, Task};
///
/// let error = "date".parse::<Task>().unwrap_err();
/// assert!(matches!(error, Error::UnknownName { .. }));
/// assert_eq!(error.to_string(), "unknown task \"date\"; expected one of: dates, reverse, copy");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The verb for it: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },

    /// A line of a file of pairs does not hold a pair.
    #[error("{}:{line}: expected {expected}, found {found}", .path.display())]
    PairLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1 as editors do.
        line: usize,
        /// The expected content of the line.
        expected: String,
        /// The content found.
        found: String,
    },

    /// There are no training or validation data.
    #[error("{what}; give at least one pair of a source and a target")]
    EmptyData {
        /// The data that are empty.
        what: String,
    },

    /// A token is not in the vocabulary.
    #[error("unknown token {token:?} at position {position}; {hint}")]
    UnknownToken {
        /// The token.
        token: String,
        /// Its position in the sequence, counted from 1.
        position: usize,
        /// A known token that may have been meant.
        hint: String,
    },

    /// A file is not the JSON it should be.
    #[error("{} is not the expected JSON: {}", .path.display(), .source.to_string().replace('\n', " "))]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's error, with line and column.
        source: serde_json::Error,
    },

    /// A saved model cannot be used.
    #[error("cannot use the model {}: {reason}", .path.display())]
    Checkpoint {
        /// The checkpoint's folder or file.
        path: PathBuf,
        /// The expectation, the fault and a way out.
        reason: String,
    },

    /// The heatmap cannot be drawn.
    #[error("{reason}")]
    Picture {
        /// The request, and why it cannot be met.
        reason: String,
    },

    /// A task or a device of this name does not exist.
    #[error("unknown {what} {name:?}; {hint}")]
    UnknownName {
        /// The kind of thing that is named.
        what: &'static str,
        /// The name given.
        name: String,
        /// The valid names.
        hint: String,
    },

    /// This build does not include the device, or this machine cannot run it.
    #[error("the device {name:?} cannot be used here: {reason}")]
    DeviceUnavailable {
        /// The device.
        name: String,
        /// The reason, and what to do.
        reason: String,
    },

    /// Many training steps in a row had a loss or gradients that are not finite.
    #[error(
        "training diverged: {steps} steps in a row were refused, the last because {reason}; {}",
        after_divergence(*.checkpoint)
    )]
    Diverged {
        /// The epoch in which training ended.
        epoch: usize,
        /// The number of the last of these steps, counted from 1 in each epoch.
        step: usize,
        /// The number of steps in a row, counted across epochs.
        steps: usize,
        /// The fault of the last step.
        reason: String,
        /// The epoch of the checkpoint from which training can continue, if there is one.
        checkpoint: Option<usize>,
    },

    /// A training process has other settings, data or parameters than the first one.
    #[error(
        "rank {rank} has other {what} than rank 0: start the same program with the same arguments and files everywhere"
    )]
    RankDiffers {
        /// The process.
        rank: usize,
        /// The thing that should be the same.
        what: &'static str,
    },

    /// Another training process failed, and reports the reason itself.
    #[error("rank {rank} failed: it says why")]
    RankFailed {
        /// The process.
        rank: usize,
    },

    /// A model gives no probabilities: logits are NaN or infinite.
    #[error(
        "the model has no probabilities for token {position} of an output: its logits are not finite; translate with \
         another checkpoint, or train again with a lower --learning-rate or --clip"
    )]
    NoProbabilities {
        /// The position of the token, counted from 1.
        position: usize,
    },

    /// A line of the standard input is not a text to translate.
    #[error("line {line} of the standard input: {source}")]
    InputLine {
        /// The line, counted from 1.
        line: usize,
        /// The fault.
        source: Box<Self>,
    },

    /// Work was stopped, by request, before it had a result.
    #[error("stopped before there was a result")]
    Stopped,

    /// An explanation has more numbers than its settings allow.
    #[error(
        "the explanation: expected at most {most} weights, changes and alternatives of its outputs, found {found}; \
         fewer outputs, or a shorter source, have fewer"
    )]
    ExplanationTooLarge {
        /// The largest allowed number.
        most: usize,
        /// The number it would have.
        found: usize,
    },

    /// A setting is out of its range.
    #[error("{what}: expected {expected}, found {found}")]
    Config {
        /// The setting, by the name that the user knows.
        what: String,
        /// The valid values.
        expected: String,
        /// The value given.
        found: String,
    },
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Setting {
                what,
                expected,
                found,
            } => Self::config(what, expected, found),
            SearchError::NoProbabilities { position } => Self::NoProbabilities { position },
            SearchError::Stopped => Self::Stopped,
        }
    }
}

impl Error {
    /// The error for the setting `what` that is out of its range.
    pub fn config(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> Self {
        Self::Config {
            what: what.into(),
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    /// The error for an operating system's refusal: the verb for the refused action, and the file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source,
        }
    }

    /// The error for a file that is not the JSON it should be.
    pub fn json(path: impl Into<PathBuf>, source: serde_json::Error) -> Self {
        let path = path.into();
        Self::Json { path, source }
    }

    /// The error for a saved model, or a part of a checkpoint, that Burn cannot load.
    pub(crate) fn unusable(path: &Path, reason: impl std::fmt::Display) -> Self {
        Self::Checkpoint {
            path: path.to_path_buf(),
            reason: reason.to_string().replace('\n', " "),
        }
    }
}

/// The advice after a training that diverged.
fn after_divergence(checkpoint: Option<usize>) -> String {
    match checkpoint {
        Some(epoch) => format!(
            "go on from the checkpoint of epoch {epoch} with a lower rate (--resume --learning-rate), or begin anew \
             with a lower --clip"
        ),
        None => "there is no checkpoint to go on from: begin anew with a lower --learning-rate or --clip".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_one_line() {
        let json = serde_json::from_str::<u32>("\"two\nlines\"");
        for error in [
            Error::Json {
                path: PathBuf::from("some/file"),
                source: json.expect_err("a string is no number"),
            },
            Error::UnknownToken {
                token: "a\nb".to_owned(),
                position: 3,
                hint: "a reason".to_owned(),
            },
            Error::UnknownName {
                what: "task",
                name: "dtaes\n".to_owned(),
                hint: "expected one of: dates, copy".to_owned(),
            },
        ] {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}
