//! A file of pairs, one pair a line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::line::{LineError, LineResult, Texts};
use super::{Columns, PairFileOptions, PairFormat, dict, jsonl, tsv};
use crate::data::Pair;
use crate::error::{Error, Result};
use crate::normalization::Normalization;
use crate::tags;
use crate::tokenizer::Tokenizer;
use crate::tokens::{Tokenization, trim_end};

/// Reads the pairs of a file, in order: [`PairFile::pairs`].
///
/// ```
/// use attention_seq2seq::{Columns, PairFileOptions, load_pairs};
///
/// let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("words.tsv");
/// std::fs::write(&file, "cab\tK AE B\nbad\tB AE D\n").unwrap();
///
/// let options = PairFileOptions::guess(&file, Columns::default())?;
/// let pairs = load_pairs(&file, &options)?;
/// assert_eq!(pairs[0].source, ["c", "a", "b"]);
/// assert_eq!(pairs[0].target, ["K", "AE", "B"]);
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
///
/// # Errors
/// As [`PairFile::read`] and [`PairFile::pairs`].
pub fn load_pairs(path: impl AsRef<Path>, options: &PairFileOptions) -> Result<Vec<Pair>> {
    PairFile::read(path)?.pairs(options)
}

/// The content of a file of pairs, read once: the file may be a pipe.
///
/// One pair a line, in a [`PairFormat`]. Lines end with LF or CRLF; a byte order mark, empty lines at the end, and
/// columns and fields beyond those that are named are ignored. Spaces and carriage returns around a text are no part of
/// it; any other character is, a no-break space (U+00A0) too.
#[derive(Clone, Debug)]
pub struct PairFile {
    path: PathBuf,
    bytes: Vec<u8>,
    is_stream: bool,
}

impl PairFile {
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

    /// As [`guess_as`](Self::guess_as), in the format that the ending of its name tells.
    ///
    /// # Errors
    /// As [`guess_as`](Self::guess_as).
    pub fn guess(&self, columns: Columns) -> Result<PairFileOptions> {
        self.guess_as(PairFormat::of_path(&self.path), columns)
    }

    /// Guesses both tokenizations from the first 1,000 pairs: [`Tokenization::Spaces`] where at least half of the texts
    /// hold a space, else [`Tokenization::Chars`]. A dictionary has letters and phonemes. The normal form is that
    /// which the sources, as characters, [tell](Normalization::guess).
    ///
    /// # Errors
    /// Those of [`pairs`](Self::pairs), in these lines.
    pub fn guess_as(&self, format: PairFormat, columns: Columns) -> Result<PairFileOptions> {
        let is_dictionary = matches!(format, PairFormat::Dict { .. });
        let mut options = PairFileOptions {
            format,
            columns,
            ..PairFileOptions::new(Tokenization::Chars, Tokenization::Spaces)
        };
        let has_tags = options.source().has_tags;
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        self.for_each_line(&options, |Texts { source, target }| {
            sources.push(match has_tags {
                true => tags::split(&source).1.to_owned(),
                false => source.into_owned(),
            });
            targets.push(target.into_owned());
            Ok(sources.len() < 1_000)
        })?;
        if !is_dictionary {
            let guess = |texts: &[String]| Tokenization::guess(texts.iter().map(String::as_str));
            options.source_tokens = guess(&sources);
            options.target_tokens = guess(&targets);
        }
        options.normalization = Normalization::guess(sources.iter().map(String::as_str));
        Ok(options)
    }

    /// The pairs, in the order of their lines.
    ///
    /// # Errors
    /// [`Error::PairLine`] for a line that is empty, not UTF-8, not in the format, short of a column, without source or
    /// target, with a control character in one, or with too many tokens; [`Error::EmptyData`] if there is no pair;
    /// [`Error::Config`] for a column 0 or the same column twice.
    pub fn pairs(&self, options: &PairFileOptions) -> Result<Vec<Pair>> {
        let (source_tokens, target_tokens) = (options.source(), options.target());
        let tokens = |tokenizer: &Tokenizer, prepared: &str| {
            let tokens = tokenizer.tokens(prepared);
            tokens.map(str::to_owned).collect()
        };
        let mut pairs = Vec::new();
        self.for_each_pair(options, |source, target| {
            pairs.push(Pair {
                source: tokens(&source_tokens, source),
                target: tokens(&target_tokens, target),
            });
        })?;
        Ok(pairs)
    }

    /// Hands the [prepared](Tokenizer::prepare) texts of source and target of each pair to `take`, once their tokens
    /// are counted.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs).
    pub(crate) fn for_each_pair(
        &self,
        options: &PairFileOptions,
        mut take: impl FnMut(&str, &str),
    ) -> Result<()> {
        let check = |side: &str, tokenizer: &Tokenizer, prepared: &str| {
            let count = tokenizer.tokens(prepared).count();
            match count <= options.max_tokens {
                true => Ok(()),
                false => Err(LineError::new(
                    format!(
                        "a {side} of at most {} tokens (--max-tokens)",
                        options.max_tokens
                    ),
                    count.to_string(),
                )),
            }
        };
        let (source_tokens, target_tokens) = (options.source(), options.target());
        self.for_each_line(options, |Texts { source, target }| {
            let (source, target) = (
                source_tokens.prepare(&source),
                target_tokens.prepare(&target),
            );
            check("source", &source_tokens, &source)?;
            check("target", &target_tokens, &target)?;
            take(&source, &target);
            Ok(true)
        })
    }

    /// Hands the texts of each line to `take` for as long as it answers true.
    fn for_each_line<'a>(
        &'a self,
        options: &PairFileOptions,
        mut take: impl FnMut(Texts<'a>) -> LineResult<bool>,
    ) -> Result<()> {
        let columns = options.columns.check()?;
        let text = self.bytes.strip_prefix(b"\xef\xbb\xbf");
        let text = trim_end(text.unwrap_or(&self.bytes));
        if text.is_empty() {
            return Err(self.empty("line"));
        }
        let mut has_pair = false;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let texts = utf8(line).and_then(|line| match &options.format {
                PairFormat::Tsv => tsv::texts(line, columns).map(Some),
                PairFormat::Dict { stress } => dict::texts(line, *stress),
                PairFormat::Jsonl(fields) => jsonl::texts(line, fields).map(Some),
            });
            let taken = texts.and_then(|texts| {
                has_pair |= texts.is_some();
                texts.map_or(Ok(true), &mut take)
            });
            let goes_on = taken.map_err(|LineError { expected, found }| Error::PairLine {
                path: self.path.clone(),
                line: index + 1,
                expected,
                found,
            })?;
            if !goes_on {
                break;
            }
        }
        match has_pair {
            true => Ok(()),
            false => Err(self.empty("pair")),
        }
    }

    /// There is nothing of this kind in it.
    fn empty(&self, what: &str) -> Error {
        Error::EmptyData {
            what: format!("{} holds no {what}", self.path.display()),
        }
    }
}

/// A line as text.
fn utf8(line: &[u8]) -> LineResult<&str> {
    std::str::from_utf8(line).map_err(|invalid| {
        let byte = invalid.valid_up_to() + 1;
        LineError::new("UTF-8 text", format!("other bytes from byte {byte} on"))
    })
}
