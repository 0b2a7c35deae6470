//! Pairs from a file: one pair a line, columns divided by TAB.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::data::Pair;
use crate::error::{Error, Result};
use crate::tokens::Tokenization;

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
}

impl TsvOptions {
    /// Guesses both tokenizations from the file's first 1,000 pairs: [`Tokenization::Spaces`] where at least half of
    /// the texts hold a space, else [`Tokenization::Chars`].
    ///
    /// # Errors
    /// Those of [`load_tsv`].
    pub fn guess(path: impl AsRef<Path>, columns: Columns) -> Result<Self> {
        let mut cells = Vec::new();
        for_each_line(path.as_ref(), columns, |source, target| {
            cells.push((source.to_owned(), target.to_owned()));
            cells.len() < 1_000
        })?;
        Ok(Self {
            columns,
            source_tokens: Tokenization::guess(cells.iter().map(|(source, _)| &source[..])),
            target_tokens: Tokenization::guess(cells.iter().map(|(_, target)| &target[..])),
        })
    }
}

/// Reads the pairs of a file, in order: one pair a line, columns divided by TAB.
///
/// Lines end with LF or CRLF; a byte order mark, empty lines at the end and columns beyond the two are ignored. White
/// space around a column is not part of it.
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
/// [`Error::Io`] if the file cannot be read; [`Error::TsvLine`] for a line that is empty, not UTF-8, short of a column
/// or without source or target; [`Error::EmptyData`] if there is no line; [`Error::Config`] for a column 0 or the same
/// column twice.
pub fn load_tsv(path: impl AsRef<Path>, options: &TsvOptions) -> Result<Vec<Pair>> {
    let TsvOptions {
        columns,
        source_tokens,
        target_tokens,
    } = *options;
    let mut pairs = Vec::new();
    for_each_line(path.as_ref(), columns, |source, target| {
        pairs.push(Pair {
            source: source_tokens.split(source),
            target: target_tokens.split(target),
        });
        true
    })?;
    Ok(pairs)
}

/// Hands source and target of each line to `take` for as long as it answers true.
fn for_each_line(
    path: &Path,
    columns: Columns,
    mut take: impl FnMut(&str, &str) -> bool,
) -> Result<()> {
    let columns = columns.check()?;
    let bytes = fs::read(path).map_err(|source| Error::Io {
        action: "read",
        path: path.to_path_buf(),
        source,
    })?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut lines = text.split(|byte| *byte == b'\n').collect::<Vec<_>>();
    let last = lines.iter().rposition(|line| !line.trim_ascii().is_empty());
    lines.truncate(last.map_or(0, |last| last + 1));
    if lines.is_empty() {
        return Err(Error::EmptyData {
            what: format!("{} holds no line", path.display()),
        });
    }
    for (index, line) in lines.into_iter().enumerate() {
        let (source, target) =
            cells(line, columns).map_err(|LineError { expected, found }| Error::TsvLine {
                path: path.to_path_buf(),
                line: index + 1,
                expected,
                found,
            })?;
        if !take(source, target) {
            break;
        }
    }
    Ok(())
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
    if line.trim().is_empty() {
        return Err(error("a pair", "an empty line"));
    }
    let cells = line.split('\t').map(str::trim).collect::<Vec<_>>();
    let cell = |name: &str, column: usize| {
        let expected = format!("a {name} in column {column}");
        match cells.get(column - 1) {
            Some(&"") => Err(error(&expected, "an empty column")),
            Some(cell) => Ok(*cell),
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
mod tests {
    use super::*;
    use Tokenization::{Chars, Spaces};

    fn options(columns: &str) -> TsvOptions {
        TsvOptions {
            columns: columns.parse().unwrap(),
            source_tokens: Spaces,
            target_tokens: Spaces,
        }
    }

    fn load(content: impl AsRef<[u8]>, options: &TsvOptions) -> Result<Vec<Pair>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.tsv");
        fs::write(&path, content).unwrap();
        load_tsv(path, options)
    }

    #[test]
    fn plain_windows_and_marked_files_read_alike() {
        let plain = load("a b\tX Y\nc\tZ\n", &options("1,2")).unwrap();
        assert_eq!(
            plain,
            [
                Pair {
                    source: Spaces.split("a b"),
                    target: Spaces.split("X Y")
                },
                Pair {
                    source: Spaces.split("c"),
                    target: Spaces.split("Z")
                },
            ]
        );
        for same in [
            "a b\tX Y\r\nc\tZ\r\n\r\n",
            "\u{feff}a b\tX Y\nc\tZ",
            "a b\tX Y\nc\tZ\n\n \n\n",
            "a  b \tX Y\tnote\nc\t Z\t\n",
        ] {
            assert_eq!(load(same, &options("1,2")).unwrap(), plain, "{same:?}");
        }
        assert_eq!(load("X Y\ta b\nZ\tc\n", &options("2,1")).unwrap(), plain);
        assert_eq!(
            load("1\tX Y\ta b\n2\tZ\tc\n", &options("3,2")).unwrap(),
            plain
        );
    }

    #[test]
    fn characters_keep_the_spaces_between_them() {
        let options = TsvOptions {
            columns: Columns::default(),
            source_tokens: Chars,
            target_tokens: Chars,
        };
        let pairs = load("5 Mai\t05\r\n", &options).unwrap();
        assert_eq!(pairs[0].source, ["5", " ", "M", "a", "i"]);
        assert_eq!(pairs[0].target, ["0", "5"]);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for (content, line, message) in [
            (
                &b"a\tb\na b\n"[..],
                2,
                "expected a target in column 2, found 1 column divided by TAB",
            ),
            (
                b"a\tb\r\n\r\nc\td\r\n",
                2,
                "expected a pair, found an empty line",
            ),
            (
                b"a\tb\nc\td\n \te\n",
                3,
                "expected a source in column 1, found an empty column",
            ),
            (
                b"a\tb\nc\t\nd\te",
                2,
                "expected a target in column 2, found an empty column",
            ),
            (
                b"a\tb\nc\tab\xff\nd\te",
                2,
                "expected UTF-8 text, found other bytes from byte 5 on",
            ),
        ] {
            let error = load(content, &options("1,2")).unwrap_err();
            assert!(
                matches!(error, Error::TsvLine { line: found, .. } if found == line),
                "{error}"
            );
            assert!(
                error
                    .to_string()
                    .ends_with(&format!("pairs.tsv:{line}: {message}")),
                "{error}"
            );
        }
        let error = load("a\tb\n", &options("3,1")).unwrap_err().to_string();
        let message = "pairs.tsv:1: expected a source in column 3, found 2 columns divided by TAB";
        assert!(error.ends_with(message), "{error}");
    }

    #[test]
    fn no_lines_and_no_file_are_different_errors() {
        assert!(matches!(
            load("\u{feff}\r\n\n", &options("1,2")),
            Err(Error::EmptyData { .. })
        ));
        assert!(matches!(
            load_tsv("/no/such/file", &options("1,2")),
            Err(Error::Io { .. })
        ));
    }

    #[test]
    fn columns_are_two_different_numbers_from_one() {
        assert_eq!(
            "2,1".parse::<Columns>().unwrap(),
            Columns {
                source: 2,
                target: 1
            }
        );
        assert_eq!(
            Columns::default().to_string().parse::<Columns>().unwrap(),
            Columns::default()
        );
        for spec in ["", "1", "1,", "0,1", "1,1", "1,2,3", "a,b", "-1,2"] {
            let error = spec.parse::<Columns>().unwrap_err();
            assert!(
                error.to_string().contains(&format!("found {spec:?}")),
                "{error}"
            );
        }
        let zero = TsvOptions {
            columns: Columns {
                source: 0,
                target: 1,
            },
            ..options("1,2")
        };
        assert!(matches!(load("a\tb\n", &zero), Err(Error::Config { .. })));
    }

    #[test]
    fn tokenizations_are_guessed_by_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.tsv");
        fs::write(&path, "cab\tK AE B\nbad\tB AE D\n").unwrap();
        let guessed = TsvOptions::guess(&path, Columns::default()).unwrap();
        assert_eq!(
            (guessed.source_tokens, guessed.target_tokens),
            (Chars, Spaces)
        );
        let swapped = TsvOptions::guess(&path, "2,1".parse().unwrap()).unwrap();
        assert_eq!(
            (swapped.source_tokens, swapped.target_tokens),
            (Spaces, Chars)
        );
    }
}
