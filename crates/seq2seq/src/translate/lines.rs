//! The lines of the standard input.

use std::io::{BufRead, BufReader, StdinLock};

use attention_seq2seq::text::ReadTokens;
use attention_seq2seq::{Error, Result};

use super::answers::Answerer;
use crate::output::{one_line, without_mark};

/// A text to translate.
pub(super) struct Line {
    pub(super) text: String,
    /// The source tokens; none if the text is blank or cannot be translated.
    pub(super) read: ReadTokens,
    /// Whether all its tokens together are a source of the dictionary.
    pub(super) is_known: bool,
    /// The reason why it cannot be translated.
    pub(super) error: Option<String>,
}

impl Line {
    /// A text with tokens that the dictionary does not know.
    fn of(text: String, read: ReadTokens) -> Self {
        Self {
            text,
            read,
            is_known: false,
            error: None,
        }
    }

    /// A text that must have tokens.
    pub(super) fn of_text(text: &str, answerer: &Answerer) -> Result<Self> {
        let tokens = answerer.translator.split_source(text);
        let is_known = answerer.knows(&tokens);
        let read = match is_known {
            true => ReadTokens {
                tokens,
                ..ReadTokens::default()
            },
            false => answerer.read(text)?,
        };
        Ok(Self {
            is_known,
            ..Self::of(text.to_string(), read)
        })
    }

    /// A line, which may be blank. The first line may begin with a byte order mark.
    pub(super) fn of_bytes(line: &[u8], is_first: bool, answerer: &Answerer) -> Result<Self> {
        let text = std::str::from_utf8(line).map_err(|error| {
            let found = format!("other bytes from byte {} on", error.valid_up_to() + 1);
            Error::config("its text", "UTF-8", found)
        })?;
        let text = if is_first { without_mark(text) } else { text };
        let text = text.trim_end_matches(['\r', '\n']);
        if answerer.translator.is_blank(text) {
            return Ok(Self::of(text.to_string(), ReadTokens::default()));
        }
        Self::of_text(text, answerer)
    }

    pub(super) fn failed(line: &[u8], error: &Error) -> Self {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\r', '\n']).to_string();
        Self {
            error: Some(one_line(error)),
            ..Self::of(text, ReadTokens::default())
        }
    }
}

/// The next line, and those that arrived with it, at most `most`, so that a user who writes line by line gets an answer
/// to each. None at the end.
pub(super) fn next_lines(
    input: &mut BufReader<StdinLock<'_>>,
    most: usize,
) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    while lines.is_empty() || (lines.len() < most && input.buffer().contains(&b'\n')) {
        let mut line = Vec::new();
        let read = input.read_until(b'\n', &mut line);
        let read = read.map_err(|source| Error::io("read", "the standard input", source))?;
        if read == 0 {
            break;
        }
        lines.push(line);
    }
    Ok(lines)
}
