//! The formats of files of pairs.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The format of a file of pairs. The name of each is that which [`FromStr`] reads, with the settings by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PairFormat {
    /// `tsv`: a pair a line, columns divided by TAB.
    #[default]
    Tsv,
    /// `dict`: a pronunciation dictionary, a word and its phonemes a line, divided by spaces or TAB. A word before a
    /// TAB may have spaces. The number of a variant, as in `read(2)`, is no part of it, nor is anything between a
    /// word and its phonemes: the probabilities of the Montreal Forced Aligner and of Kaldi's `lexiconp.txt`, NLTK's
    /// numbers of pronunciations, HTK's outputs in brackets. The file as a whole tells which of them it has; one that
    /// can be read in two ways is refused. Lines that begin with `;;;`, `##` or `# ` are comments, and so is the rest
    /// of a line from a field that begins with `#`.
    Dict {
        /// The digits of stress that end a vowel.
        stress: Stress,
    },
    /// `jsonl`: a JSON object a line.
    Jsonl(JsonFields),
}

/// The digits of stress in a pronunciation dictionary: `AH0` is unstressed, `AH1` has primary, `AH2` secondary stress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stress {
    /// Phonemes are as they are: AH0.
    #[default]
    Keep,
    /// Phonemes have no digit: AH.
    Drop,
}

/// The names of the fields of a JSON object that hold source and target, and tags where there are some. Reads and
/// writes as `source,target` or `source,target,tags`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonFields {
    /// The field of the source.
    pub source: String,
    /// The field of the target.
    pub target: String,
    /// The field of tags, which are divided by `;` as [`Columns`](crate::data::Columns) have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
}

impl Default for JsonFields {
    fn default() -> Self {
        Self {
            source: "source".to_owned(),
            target: "target".to_owned(),
            tags: None,
        }
    }
}

impl PairFormat {
    /// The format that the name of a file tells: `.dict`, `.jsonl`, `.ndjson`, or one of CMUdict's own, such as
    /// `cmudict-0.7b`; and else [`Tsv`](Self::Tsv).
    pub fn of_path(path: impl AsRef<Path>) -> Self {
        Self::told(path.as_ref()).unwrap_or_default()
    }

    /// The format of another file, which is read for the same model: as its ending tells, if that is the ending of a
    /// format, with the settings of this one where both are of one kind; else this one.
    pub fn of_other(&self, path: impl AsRef<Path>) -> Self {
        let is_other = |told: &Self| std::mem::discriminant(told) != std::mem::discriminant(self);
        let told = Self::told(path.as_ref()).filter(is_other);
        told.unwrap_or_else(|| self.clone())
    }

    /// The format that the name of a file tells, if it is the name of one.
    pub(super) fn told(path: &Path) -> Option<Self> {
        let dict = Self::Dict {
            stress: Stress::default(),
        };
        let ending = path.extension().map(|it| it.to_ascii_lowercase());
        match ending.as_ref().and_then(|it| it.to_str()) {
            Some("dict") => Some(dict),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl(JsonFields::default())),
            Some("tsv") => Some(Self::Tsv),
            _ => {
                let name = path.file_name()?.to_str()?.to_ascii_lowercase();
                let version = name.strip_prefix("cmudict")?;
                let version = version.strip_prefix(['-', '.', '_']).unwrap_or(version);
                let is_version =
                    version.is_empty() || version.starts_with(|it: char| it.is_ascii_digit());
                is_version.then_some(dict)
            }
        }
    }

    /// The format with other digits of stress.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not [`Dict`](Self::Dict).
    pub fn with_stress(self, stress: Stress) -> Result<Self> {
        match self {
            Self::Dict { .. } => Ok(Self::Dict { stress }),
            other => {
                let expected = "a file in the format dict";
                Err(Error::config("--stress", expected, other))
            }
        }
    }

    /// The format with other names of fields.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not [`Jsonl`](Self::Jsonl).
    pub fn with_fields(self, fields: JsonFields) -> Result<Self> {
        match self {
            Self::Jsonl(_) => Ok(Self::Jsonl(fields)),
            other => {
                let expected = "a file in the format jsonl";
                Err(Error::config("--fields", expected, other))
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
    /// [`Error::Config`] for another name.
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

impl fmt::Display for JsonFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.source, self.target)?;
        match &self.tags {
            Some(tags) => write!(f, ",{tags}"),
            None => Ok(()),
        }
    }
}

impl FromStr for JsonFields {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] for anything but two or three different names with commas between them.
    fn from_str(names: &str) -> Result<Self> {
        let parts: Vec<&str> = names.split(',').collect();
        let is_twice = |at: usize| parts[..at].contains(&parts[at]);
        let (source, target, tags) = match parts[..] {
            [source, target] => (source, target, None),
            [source, target, tags] => (source, target, Some(tags)),
            _ => ("", "", None),
        };
        if parts.contains(&"") || source.is_empty() || (0..parts.len()).any(is_twice) {
            let expected = "the names of the fields of source and target, such as source,target, and of tags, if any";
            return Err(Error::config("fields", expected, format!("{names:?}")));
        }
        Ok(Self {
            source: source.to_owned(),
            target: target.to_owned(),
            tags: tags.map(str::to_owned),
        })
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

    #[test]
    fn fields_are_two_or_three_different_names() {
        for names in ["source,target", "en,de", "lemma,form,features"] {
            assert_eq!(names.parse::<JsonFields>().unwrap().to_string(), names);
        }
        for names in ["", "en", "en,", ",de", "en,en", "a,b,a", "a,b,", "a,b,c,d"] {
            let error = names.parse::<JsonFields>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found {names:?}")), "{error}");
        }
    }
}
