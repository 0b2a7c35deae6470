//! Pairs from a file: one pair a line, columns divided by TAB.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::data::Pair;
use crate::error::{Error, Result};
use crate::tokens::{Tokenization, trim, trim_end};

/// The columns of source and target, counted from 1. Reads and writes as `1,2`.
///
/// ```
/// use attention_seq2seq::Columns;
///
/// assert_eq!("2,1".parse::<Columns>()?, Columns { source: 2, target: 1 });
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The source's column.
    pub source: usize,
    /// The target's column.
    pub target: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            source: 1,
            target: 2,
        }
    }
}

impl Columns {
    fn check(self) -> Result<Self> {
        if self.source == 0 || self.target == 0 || self.source == self.target {
            return Err(Self::error(&self.to_string()));
        }
        Ok(self)
    }

    fn error(found: &str) -> Error {
        Error::Config {
            what: "columns".to_owned(),
            expected: "the source's and the target's column counted from 1, such as 1,2 or 2,1"
                .to_owned(),
            found: format!("{found:?}"),
        }
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.source, self.target)
    }
}

impl FromStr for Columns {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] for anything but two different numbers from 1 on with a comma between them.
    fn from_str(spec: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse().map_err(|_| Self::error(spec));
        let (source, target) = spec.split_once(',').ok_or_else(|| Self::error(spec))?;
        Self {
            source: number(source)?,
            target: number(target)?,
        }
        .check()
    }
}

/// How to read a file of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TsvOptions {
    /// The columns of source and target.
    pub columns: Columns,
    /// How a source becomes tokens.
    pub source_tokens: Tokenization,
    /// How a target becomes tokens.
    pub target_tokens: Tokenization,
    /// The most tokens that a source or a target may have.
    pub max_tokens: usize,
}

impl TsvOptions {
    /// The most tokens of a source or a target, unless another number is asked for: a model of recurrent layers learns
    /// little from more, and memory and time of a batch grow with the longest in it.
    pub const MAX_TOKENS: usize = 1_000;

    /// As [`TsvFile::guess`], for a file.
    ///
    /// # Errors
    /// Those of [`load_tsv`].
    pub fn guess(path: impl AsRef<Path>, columns: Columns) -> Result<Self> {
        TsvFile::read(path)?.guess(columns)
    }
}

/// Reads the pairs of a file, in order: [`TsvFile::pairs`].
///
/// ```
/// use attention_seq2seq::{Columns, TsvOptions, load_tsv};
///
/// let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("words.tsv");
/// std::fs::write(&file, "cab\tK AE B\nbad\tB AE D\n").unwrap();
///
/// let options = TsvOptions::guess(&file, Columns::default())?;
/// let pairs = load_tsv(&file, &options)?;
/// assert_eq!(pairs[0].source, ["c", "a", "b"]);
/// assert_eq!(pairs[0].target, ["K", "AE", "B"]);
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
///
/// # Errors
/// As [`TsvFile::read`] and [`TsvFile::pairs`].
pub fn load_tsv(path: impl AsRef<Path>, options: &TsvOptions) -> Result<Vec<Pair>> {
    TsvFile::read(path)?.pairs(options)
}

/// The content of a file of pairs, read once: the file may be a pipe.
///
/// One pair a line, columns divided by TAB. Lines end with LF or CRLF; a byte order mark, empty lines at the end and
/// columns beyond the two are ignored. Spaces and carriage returns around a column are no part of it; any other
/// character is, a no-break space (U+00A0) too.
#[derive(Clone, Debug)]
pub struct TsvFile {
    path: PathBuf,
    bytes: Vec<u8>,
    is_stream: bool,
}

impl TsvFile {
    /// Reads a file to its end; `-` is the standard input.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let mut path = path.as_ref();
        let is_standard_input = path == Path::new("-");
        if is_standard_input {
            path = Path::new("the standard input");
        }
        let refused = |error| Error::io("read", path, error);
        let mut bytes = Vec::new();
        let mut is_stream = true;
        if is_standard_input {
            io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(refused)?;
        } else {
            let mut file = File::open(path).map_err(refused)?;
            // These are names of this process: `/dev/stdin`, `<(..)` of a shell.
            is_stream = !file.metadata().map_err(refused)?.is_file()
                || ["/dev/stdin", "/dev/fd", "/proc"]
                    .iter()
                    .any(|it| path.starts_with(it));
            file.read_to_end(&mut bytes).map_err(refused)?;
        }
        Ok(Self {
            path: path.to_path_buf(),
            bytes,
            is_stream,
        })
    }

    /// Content that is in memory already. Errors name it `path`.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
            is_stream: true,
        }
    }

    /// Whether it cannot be read again by its name.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The name that errors give it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Guesses both tokenizations from the first 1,000 pairs: [`Tokenization::Spaces`] where at least half of the texts
    /// hold a space, else [`Tokenization::Chars`].
    ///
    /// # Errors
    /// Those of [`pairs`](Self::pairs), in these lines.
    pub fn guess(&self, columns: Columns) -> Result<TsvOptions> {
        let mut cells = Vec::new();
        self.for_each_line(columns, |source, target| {
            cells.push((source, target));
            Ok(cells.len() < 1_000)
        })?;
        Ok(TsvOptions {
            columns,
            source_tokens: Tokenization::guess(cells.iter().map(|(source, _)| *source)),
            target_tokens: Tokenization::guess(cells.iter().map(|(_, target)| *target)),
            max_tokens: TsvOptions::MAX_TOKENS,
        })
    }

    /// The pairs, in the order of their lines.
    ///
    /// # Errors
    /// [`Error::TsvLine`] for a line that is empty, not UTF-8, short of a column, without source or target, with a
    /// control character in one, or with too many tokens; [`Error::EmptyData`] if there is no line; [`Error::Config`]
    /// for a column 0 or the same column twice.
    pub fn pairs(&self, options: &TsvOptions) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        self.for_each_pair(options, |source, target| {
            pairs.push(Pair {
                source: options.source_tokens.split(source),
                target: options.target_tokens.split(target),
            });
        })?;
        Ok(pairs)
    }

    /// Hands the texts of source and target of each pair to `take`, once their tokens are counted.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub(crate) fn for_each_pair(
        &self,
        options: &TsvOptions,
        mut take: impl FnMut(&str, &str),
    ) -> Result<()> {
        let check = |side: &str, tokenization: Tokenization, text| {
            let count = tokenization.tokens(text).count();
            match count <= options.max_tokens {
                true => Ok(()),
                false => Err(LineError {
                    expected: format!(
                        "a {side} of at most {} tokens (--max-tokens)",
                        options.max_tokens
                    ),
                    found: count.to_string(),
                }),
            }
        };
        self.for_each_line(options.columns, |source, target| {
            check("source", options.source_tokens, source)?;
            check("target", options.target_tokens, target)?;
            take(source, target);
            Ok(true)
        })
    }

    /// Hands source and target of each line to `take` for as long as it answers true.
    fn for_each_line<'a>(
        &'a self,
        columns: Columns,
        mut take: impl FnMut(&'a str, &'a str) -> std::result::Result<bool, LineError>,
    ) -> Result<()> {
        let columns = columns.check()?;
        let text = self.bytes.strip_prefix(b"\xef\xbb\xbf");
        let text = trim_end(text.unwrap_or(&self.bytes));
        if text.is_empty() {
            return Err(Error::EmptyData {
                what: format!("{} holds no line", self.path.display()),
            });
        }
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let taken = cells(line, columns).and_then(|(source, target)| take(source, target));
            let goes_on = taken.map_err(|LineError { expected, found }| Error::TsvLine {
                path: self.path.clone(),
                line: index + 1,
                expected,
                found,
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}

/// The fault of a line, without its number.
struct LineError {
    expected: String,
    found: String,
}

/// The source and the target of one line.
fn cells(line: &[u8], columns: Columns) -> std::result::Result<(&str, &str), LineError> {
    let error = |expected: &str, found: &str| LineError {
        expected: expected.to_owned(),
        found: found.to_owned(),
    };
    let line = std::str::from_utf8(line).map_err(|invalid| {
        let byte = invalid.valid_up_to() + 1;
        error("UTF-8 text", &format!("other bytes from byte {byte} on"))
    })?;
    if trim(line).is_empty() {
        return Err(error("a pair", "an empty line"));
    }
    let cells = line.split('\t').map(trim);
    let cells = cells.collect::<Vec<_>>();
    let cell = |name: &str, column: usize| {
        let expected = format!("a {name} in column {column}");
        match cells.get(column - 1) {
            Some(&"") => Err(error(&expected, "an empty column")),
            Some(cell) => match cell.chars().find(|c| c.is_control()) {
                None => Ok(*cell),
                Some(control) => Err(error(
                    "text without control characters",
                    &format!("U+{:04X} in column {column}", u32::from(control)),
                )),
            },
            None => {
                let s = if cells.len() == 1 { "" } else { "s" };
                let found = format!("{} column{s} divided by TAB", cells.len());
                Err(error(&expected, &found))
            }
        }
    };
    Ok((
        cell("source", columns.source)?,
        cell("target", columns.target)?,
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
