//! The forms of outputs.

use attention_seq2seq::translate::Attended;
use attention_seq2seq::{Error, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::answers::Answer;
use super::lines::Line;
use crate::output::STANDARD_OUTPUT;

/// The form of the outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The outputs of a source in a line.
    #[default]
    Text,
    /// A line for each output.
    Tsv,
    /// An object for each source.
    Jsonl,
}

/// The form of alignments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Alignments {
    /// Pairs of positions.
    Pharaoh,
    /// Tokens and weights.
    Json,
}

/// Writes outputs in lines.
pub(super) struct Writer {
    pub(super) format: Format,
    /// Whether an alignment follows each output.
    pub(super) with_alignments: bool,
}

/// The outputs of a source.
#[derive(Serialize)]
struct SourceObject<'a> {
    source: &'a str,
    outputs: &'a [Answer],
    /// The reason why there are no outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// An alignment in one of its forms.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Alignment {
    Pharaoh(String),
    Json {
        source: Vec<String>,
        target: Vec<String>,
        /// A row for each target token.
        weights: Vec<Vec<f32>>,
    },
}

impl Alignment {
    pub(super) fn new(form: Alignments, alignment: Attended) -> Self {
        let rows = alignment.weights.chunks(alignment.source.len().max(1));
        match form {
            Alignments::Pharaoh => Self::Pharaoh(pharaoh(&alignment)),
            Alignments::Json => Self::Json {
                weights: rows.map(<[f32]>::to_vec).collect(),
                source: alignment.source,
                target: alignment.target,
            },
        }
    }

    /// The text of a column.
    fn text(&self) -> Result<String> {
        match self {
            Self::Pharaoh(links) => Ok(links.clone()),
            Self::Json { .. } => json(self),
        }
    }
}

impl Writer {
    /// The lines of a source's outputs; a single empty one if there are none.
    pub(super) fn lines(&self, line: &Line, answers: &[Answer]) -> Result<Vec<String>> {
        match self.format {
            Format::Text => {
                let texts = answers.iter();
                let texts = texts.map(|answer| self.with_alignment(answer, &answer.text));
                let texts: Vec<String> = texts.collect::<Result<_>>()?;
                Ok(vec![texts.join("\t")])
            }
            Format::Tsv if answers.is_empty() => Ok(vec![String::new()]),
            Format::Tsv => {
                let source = in_column(&line.text);
                let lines = answers.iter().map(|answer| {
                    let probability = answer.log_probability.as_ref();
                    let probability = probability.map_or_else(String::new, f64::to_string);
                    let columns = format!("{source}\t{}\t{probability}", answer.text);
                    self.with_alignment(answer, &columns)
                });
                lines.collect()
            }
            Format::Jsonl => Ok(vec![json(&SourceObject {
                source: &line.text,
                outputs: answers,
                error: line.error.as_deref(),
            })?]),
        }
    }

    /// The columns of an answer, with its alignment in another column if requested.
    fn with_alignment(&self, answer: &Answer, columns: &str) -> Result<String> {
        if !self.with_alignments {
            return Ok(columns.to_string());
        }
        let alignment = answer.alignment.as_ref().map(Alignment::text);
        let alignment = alignment.transpose()?.unwrap_or_default();
        Ok(format!("{columns}\t{alignment}"))
    }
}

/// For each target token except the end, `source-target`: the position of the source token with the largest weight, and
/// its own; nothing for a token whose largest weight is on the source's end.
fn pharaoh(alignment: &Attended) -> String {
    let rows = alignment.weights.chunks(alignment.source.len().max(1));
    let rows = rows.take(alignment.output.tokens.len()).enumerate();
    let links = rows.filter_map(|(target, row)| {
        let best = (0..row.len()).reduce(|best, at| if row[at] > row[best] { at } else { best })?;
        let is_end = alignment.attends_to_end && best + 1 == row.len();
        (!is_end).then(|| format!("{best}-{target}"))
    });
    links.collect::<Vec<_>>().join(" ")
}

/// A text as a column: a TAB would begin another column.
fn in_column(text: &str) -> String {
    text.trim_matches(['\t', ' ']).replace('\t', " ")
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|source| Error::json(STANDARD_OUTPUT, source))
}
