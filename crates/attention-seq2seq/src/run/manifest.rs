//! The file `run.json`: everything about a run, in one file that is replaced by a single rename.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunConfig;
use super::history::Epoch;
use crate::error::{Error, Result};
use crate::text::vocab::Vocabs;

/// The version of the file's format. Runs with any other are refused.
const FORMAT: u32 = 4;

/// The name of the file.
pub(super) const NAME: &str = "run.json";

/// The contents of a run. Other files count only if they are named here, and have the checksum given here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The settings; `None` if a model of the user's own was trained.
    pub(super) settings: Option<RunConfig>,
    /// The epochs trained so far.
    pub(super) history: Vec<Epoch>,
    /// The checkpoints that are kept, in order.
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The epoch of the model, once a checkpoint was chosen.
    pub(crate) model: Option<usize>,
    /// The vocabularies, if there are settings. They come last because they are long.
    pub(super) vocabs: Option<Vocabs>,
}

/// The checkpoint after an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(super) epoch: usize,
    /// The file of the model.
    pub(super) model: Checksum,
    /// The file of the optimizer's state.
    pub(super) optim: Checksum,
    /// The file of the weights, if the model is their average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) weights: Option<Checksum>,
    /// The number of consecutive refused steps when the epoch ended.
    pub(super) refused: usize,
    /// The time so far, if it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<TrainingClock>,
}

impl Checkpoint {
    /// The paths of its files.
    pub(super) fn files(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        let weights = self.weights.as_ref().map(|_| Part::Weights);
        let parts = [Part::Model, Part::Optim].into_iter().chain(weights);
        parts.map(|part| part.file(folder, self.epoch))
    }
}

/// The time and the steps of a training, if either is limited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainingClock {
    /// The number of seconds so far.
    pub(crate) seconds: f64,
    /// The number of seconds of the last validation.
    pub(crate) validation_seconds: f64,
    /// The number of steps so far; an epoch that was cut off has fewer.
    pub(crate) steps: usize,
}

/// The length and checksum by which a file is recognized as the one that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checksum {
    bytes: u64,
    crc32: String,
}

impl Checksum {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            crc32: hexadecimal(bytes),
        }
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes with CRC-32 {}", self.bytes, self.crc32)
    }
}

/// The checksum CRC-32, in hexadecimal as written.
fn hexadecimal(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// The file around a [`Manifest`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    format: u32,
    /// The checksum of the whole text with this field left empty. To edit the file by hand, remove this line.
    crc32: Option<String>,
    run: Manifest,
}

/// A text with another checksum in place, which precedes all content that a run determines.
fn filled(text: &str, from: &str, to: &str) -> String {
    let [from, to] = [from, to].map(|crc32| format!("\"crc32\": {crc32:?}"));
    text.replacen(&from, &to, 1)
}

/// The format version that a file declares, whatever else it contains.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Manifest {
    /// Loads the file in `folder`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if it was changed, is of another format, or its settings make no model; [`Error::Json`]
    /// or [`Error::Io`] if it cannot be read.
    pub(super) fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let json = |source| Error::json(&path, source);
        let text = fs::read_to_string(&path).map_err(|error| Error::io("read", &path, error))?;
        // Parsed separately, because another version may have other fields.
        let Format { format } = serde_json::from_str(&text).map_err(json)?;
        if format != FORMAT {
            let reason = format!(
                "expected a run of format {FORMAT}, found format {format}: train again with this version"
            );
            return Err(Error::unusable(&path, reason));
        }
        let envelope: Envelope = serde_json::from_str(&text).map_err(json)?;
        if let Some(expected) = envelope.crc32 {
            let found = hexadecimal(filled(&text, &expected, "").as_bytes());
            if expected != found {
                let reason = format!(
                    "it was changed: expected the CRC-32 {expected}, found {found} \
                     (who edits it by hand removes the line \"crc32\")"
                );
                return Err(Error::unusable(&path, reason));
            }
        }
        let manifest = envelope.run;
        manifest.check().map_err(|it| Error::unusable(&path, it))?;
        if let Some(settings) = &manifest.settings {
            settings.check().map_err(|it| Error::unusable(&path, it))?;
        }
        Ok(manifest)
    }

    /// Checks for inconsistencies that editing by hand may introduce.
    fn check(&self) -> std::result::Result<(), &'static str> {
        let history = self.history.iter().map(|it| it.epoch);
        if !history.is_sorted_by(|a, b| a < b) {
            return Err("expected the epochs of the history in order, each once");
        }
        let checkpoints = self.checkpoints.iter().map(|it| it.epoch);
        if !checkpoints.is_sorted_by(|a, b| a < b) {
            return Err("expected the epochs of checkpoints in order, each once");
        }
        match self.model.is_none_or(|it| self.checkpoint(it).is_some()) {
            true => Ok(()),
            false => Err("expected a model that is one of the checkpoints"),
        }
    }

    /// The content of the file at `path`.
    pub(super) fn text(&self, path: &Path) -> Result<String> {
        let json = |source| Error::json(path, source);
        let envelope = Envelope {
            format: FORMAT,
            crc32: Some(String::new()),
            run: self.clone(),
        };
        let mut text = serde_json::to_string_pretty(&envelope).map_err(json)?;
        text.push('\n');
        let crc32 = hexadecimal(text.as_bytes());
        Ok(filled(&text, "", &crc32))
    }

    /// Drops the epochs after this one, and their checkpoints.
    pub(super) fn forget_after(&mut self, epoch: usize) {
        self.history.retain(|it| it.epoch <= epoch);
        self.checkpoints.retain(|it| it.epoch <= epoch);
        self.model = self.model.filter(|&it| it <= epoch);
    }

    pub(super) fn checkpoint(&self, epoch: usize) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|it| it.epoch == epoch)
    }

    /// Whether the parameters of a checkpoint seem valid: the last step before it was not refused, and the validation
    /// loss, if known, is finite.
    pub(super) fn is_sound(&self, checkpoint: &Checkpoint) -> bool {
        let mut epochs = self.history.iter();
        let epoch = epochs.find(|it| it.epoch == checkpoint.epoch);
        checkpoint.refused == 0 && epoch.is_none_or(|it| it.valid.loss.is_finite())
    }

    /// The epoch of the newest checkpoint that is sound.
    pub(super) fn newest_sound(&self) -> Option<usize> {
        let newest_first = self.checkpoints.iter().rev();
        let mut sound = newest_first.filter(|it| self.is_sound(it));
        sound.next().map(|it| it.epoch)
    }
}

/// A file of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Model,
    /// The optimizer's state.
    Optim,
    /// The weights, if the model is their average.
    Weights,
}

impl Part {
    /// The path of the file after an epoch.
    pub(crate) fn file(self, folder: &Path, epoch: usize) -> PathBuf {
        let name = match self {
            Self::Model => "model",
            Self::Optim => "optim",
            Self::Weights => "weights",
        };
        let checkpoints = folder.join("checkpoint");
        checkpoints.join(format!("{name}-{epoch}.bpk"))
    }
}
