//! The formats of files of pairs.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::JsonFields;
use crate::error::{Error, Result};

/// The format of a file of pairs. [`FromStr`] reads the name of each, and gives it default settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PairFormat {
    /// `tsv`: a pair per line, in columns separated by TAB.
    #[default]
    Tsv,
    /// `dict`: a pronunciation dictionary, with a word and its phonemes per line, separated by spaces or TAB. A word
    /// before a TAB may have spaces. The number of a variant, as in `read(2)`, is not part of it, nor is anything
    /// between a word and its phonemes: the probabilities of the Montreal Forced Aligner and of Kaldi's `lexiconp.txt`,
    /// NLTK's numbers of pronunciations, HTK's outputs in brackets. Which of these a dictionary has follows from the
    /// file as a whole; a file that can be read in two ways is refused. Lines that begin with `;;;`, `##` or `# ` are
    /// comments, and so is the rest of a line from a field that begins with `#`.
    Dict {
        /// The digits of stress that end a vowel.
        stress: Stress,
    },
    /// `jsonl`: a JSON object per line.
    Jsonl(JsonFields),
}

/// The digits of stress in a pronunciation dictionary: `AH0` is unstressed, `AH1` has primary, `AH2` secondary stress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stress {
    /// Phonemes stay as they are: AH0.
    #[default]
    Keep,
    /// Phonemes lose their digit: AH.
    Drop,
}

impl PairFormat {
    /// The format by the name of a file: `.dict`, `.jsonl`, `.ndjson`, or one of CMUdict's own names, such as
    /// `cmudict-0.7b`; otherwise [`Tsv`](Self::Tsv).
    pub fn of_path(path: impl AsRef<Path>) -> Self {
        Self::told(path.as_ref()).unwrap_or_default()
    }

    /// The format of another file that is read for the same model: the one by its name, if that is of another kind;
    /// otherwise this one with its settings.
    pub fn of_other(&self, path: impl AsRef<Path>) -> Self {
        let is_other = |told: &Self| std::mem::discriminant(told) != std::mem::discriminant(self);
        let told = Self::told(path.as_ref()).filter(is_other);
        told.unwrap_or_else(|| self.clone())
    }

    /// The format by the name of a file, if the name tells one.
    pub(super) fn told(path: &Path) -> Option<Self> {
        let stress = Stress::default();
        let dict = Self::Dict { stress };
        let ending = path.extension().map(|it| it.to_ascii_lowercase());
        match ending.as_ref().and_then(|it| it.to_str()) {
            Some("dict") => Some(dict),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl(JsonFields::default())),
            Some("tsv") => Some(Self::Tsv),
            _ => {
                let name = path.file_name()?.to_str()?.to_ascii_lowercase();
                let version = name.strip_prefix("cmudict")?;
                let version = version.trim_start_matches(['-', '.', '_']);
                let is_version =
                    version.is_empty() || version.starts_with(|it: char| it.is_ascii_digit());
                is_version.then_some(dict)
            }
        }
    }
}

impl fmt::Display for PairFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tsv => "tsv",
            Self::Dict { .. } => "dict",
            Self::Jsonl(_) => "jsonl",
        })
    }
}

impl FromStr for PairFormat {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] for an unknown name.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "tsv" | "dict" | "jsonl" => Ok(Self::of_path(Path::new("pairs").with_extension(name))),
            _ => {
                let (what, expected) = ("the format of pairs", "tsv, dict or jsonl");
                Err(Error::config(what, expected, format!("{name:?}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_endings_tell_the_format() {
        for (name, endings) in [
            ("tsv", &["tsv", "txt", "dict.tsv", "json"][..]),
            ("dict", &["dict", "DICT"]),
            ("jsonl", &["jsonl", "ndjson"]),
        ] {
            let format: PairFormat = name.parse().unwrap();
            assert_eq!(format.to_string(), name);
            for ending in endings {
                assert_eq!(PairFormat::of_path(format!("a/words.{ending}")), format);
            }
            let json = serde_json::to_string(&format).unwrap();
            assert_eq!(serde_json::from_str::<PairFormat>(&json).unwrap(), format);
        }
        for (name, format) in [
            ("-", "tsv"),
            ("a/cmudict-0.7b", "dict"),
            ("cmudict", "dict"),
            ("CMUdict.0.7a.txt", "dict"),
            ("cmudict.tsv", "tsv"),
            ("cmudict-pairs.txt", "tsv"),
        ] {
            assert_eq!(PairFormat::of_path(name).to_string(), format, "{name}");
        }
        let error = "csv".parse::<PairFormat>().unwrap_err().to_string();
        let expected = "the format of pairs: expected tsv, dict or jsonl, found \"csv\"";
        assert_eq!(error, expected);
    }
}
