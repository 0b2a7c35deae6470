//! The lines of the standard input.

use std::io::{BufRead, BufReader, StdinLock};

use attention_seq2seq::{Error, ReadTokens, Result};

use super::answers::Answerer;
use crate::cli::output::{one_line, without_mark};

/// The most lines that are translated at once.
const LINES: usize = 256;

/// A text to translate.
pub(super) struct Line {
    pub(super) text: String,
    /// The source tokens, none if the text is blank or cannot be translated.
    pub(super) read: ReadTokens,
    /// Whether its tokens, all of them, are a source of the dictionary.
    pub(super) is_known: bool,
    /// The reason why it cannot be translated.
    pub(super) error: Option<String>,
}

impl Line {
    /// A text that has to have tokens.
    ///
    /// # Errors
    /// Those of [`Answerer::read`], where the text is not in the dictionary.
    pub(super) fn of_text(text: &str, answerer: &Answerer) -> Result<Self> {
        let tokens = answerer.translator.split_source(text);
        let is_known = answerer.knows(&tokens);
        let read = if is_known {
            ReadTokens {
                tokens,
                ..ReadTokens::default()
            }
        } else {
            answerer.read(text)?
        };
        Ok(Self {
            text: text.to_string(),
            read,
            is_known,
            error: None,
        })
    }

    /// A line, which may be blank. The first may begin with a byte order mark.
    ///
    /// # Errors
    /// As [`of_text`](Self::of_text); [`Error::Config`] if it is not UTF-8.
    pub(super) fn of_bytes(line: &[u8], is_first: bool, answerer: &Answerer) -> Result<Self> {
        let text = std::str::from_utf8(line).map_err(|error| Error::Config {
            what: "its text".to_string(),
            expected: "UTF-8".to_string(),
            found: format!("other bytes from byte {} on", error.valid_up_to() + 1),
        })?;
        let text = if is_first { without_mark(text) } else { text };
        let text = text.trim_end_matches(['\r', '\n']);
        if answerer.translator.is_blank(text) {
            return Ok(Self {
                text: text.to_string(),
                read: ReadTokens::default(),
                is_known: false,
                error: None,
            });
        }
        Self::of_text(text, answerer)
    }

    /// A line that cannot be translated.
    pub(super) fn failed(line: &[u8], error: &Error) -> Self {
        let text = String::from_utf8_lossy(line);
        Self {
            text: text.trim_end_matches(['\r', '\n']).to_string(),
            read: ReadTokens::default(),
            is_known: false,
            error: Some(one_line(error)),
        }
    }
}

/// The next line, and those that have come with it: who writes line by line gets an answer to each. None at the end.
pub(super) fn next_lines(input: &mut BufReader<StdinLock<'_>>) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    while lines.is_empty() || (lines.len() < LINES && input.buffer().contains(&b'\n')) {
        let mut line = Vec::new();
        let read = input.read_until(b'\n', &mut line);
        let read = read.map_err(|source| Error::Io {
            action: "read",
            path: "the standard input".into(),
            source,
        })?;
        if read == 0 {
            break;
        }
        lines.push(line);
    }
    Ok(lines)
}
