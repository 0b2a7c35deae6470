//! A file of pairs, one per line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::line::{LineError, LineResult, Texts};
use super::{Columns, PairFileOptions, PairFormat, dict, jsonl, sniff, tsv};
use crate::data::pairs::Pair;
use crate::error::{Error, Result};
use crate::text::normalization::Normalization;
use crate::text::tokenizer::Tokenizer;
use crate::text::tokens::{TextKind, Tokenization, trim_end};

/// Reads the pairs of a file, in order: [`PairFile::pairs`].
///
/// ```
/// use attention_seq2seq::load_pairs;
/// use attention_seq2seq::data::{Columns, PairFileOptions};
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

/// The content of a file of pairs, read only once, so that the file may be a pipe.
///
/// It has one pair per line, in a [`PairFormat`]. Lines end with LF or CRLF; a byte order mark, empty lines at the end,
/// and columns and fields that are not named are ignored. Spaces and carriage returns around a text are not part of it;
/// all other characters are, including a no-break space (U+00A0).
#[derive(Clone, Debug)]
pub struct PairFile {
    path: PathBuf,
    bytes: Vec<u8>,
    is_stream: bool,
    /// The layout of a dictionary, once it has been found.
    layout: OnceLock<dict::Layout>,
}

impl PairFile {
    /// The number of pairs to guess from.
    const GUESSED: usize = 1_000;

    /// Reads a file to its end; `-` is the standard input.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        if path == Path::new("-") {
            let name = "the standard input";
            let read = io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| Error::io("read", name, error))?;
            return Ok(Self::from_bytes(name, bytes));
        }
        let refused = |error| Error::io("read", path, error);
        let mut file = File::open(path).map_err(refused)?;
        // These names belong to this process: `/dev/stdin`, `<(..)` of a shell.
        let of_process = ["/dev/stdin", "/dev/fd", "/proc"];
        let is_stream = !file.metadata().map_err(refused)?.is_file()
            || of_process.iter().any(|it| path.starts_with(it));
        file.read_to_end(&mut bytes).map_err(refused)?;
        Ok(Self {
            is_stream,
            ..Self::from_bytes(path, bytes)
        })
    }

    /// Content that is in memory already. Errors call it `path`.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
            is_stream: true,
            layout: OnceLock::new(),
        }
    }

    /// Whether it cannot be read again by its name.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The name in errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The format by its [name](PairFormat::of_path), otherwise by its content: a file that begins with `;;;` is a
    /// [`PairFormat::Dict`], any other a [`PairFormat::Tsv`].
    ///
    /// # Errors
    /// [`Error::Config`] if its lines may be either: numbers follow every word, as in dictionaries.
    pub fn format(&self) -> Result<PairFormat> {
        match PairFormat::told(&self.path) {
            Some(told) => Ok(told),
            None => sniff::format(&self.path, lines(&self.bytes)),
        }
    }

    /// A line for the user with the name of the file and the columns found in it, if it is a dictionary; otherwise
    /// `None`.
    ///
    /// # Errors
    /// [`Error::PairLine`] for a line that can be read in two ways.
    pub fn recognized(&self, format: &PairFormat) -> Result<Option<String>> {
        let layout = self.layout(format)?;
        Ok(layout.map(|layout| format!("{}: {layout}", self.path.display())))
    }

    /// As [`guess_of`](Self::guess_of), with nothing known about the texts, in the format by its name or content
    /// ([`format`](Self::format)). With named columns it is [`PairFormat::Tsv`], unless its name says otherwise.
    ///
    /// # Errors
    /// As [`format`](Self::format) and [`guess_of`](Self::guess_of).
    pub fn guess(&self, columns: Columns) -> Result<PairFileOptions> {
        let format = match columns == Columns::default() {
            true => self.format()?,
            false => PairFormat::of_path(&self.path),
        };
        self.guess_of(format, columns, [TextKind::Any; 2])
    }

    /// Guesses both tokenizations from 1,000 pairs of all parts of the file, using what is known about sources and
    /// targets. [`Tokenization::Spaces`] is guessed if more than half of the texts have a space and their words are
    /// tokens: letters or phonemes written apart, recurring words, or sentences; but not for names of two words. A
    /// dictionary has letters and phonemes. The normal form is [guessed](Normalization::guess) from the sources, as
    /// characters.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs), for the lines that are read.
    pub fn guess_of(
        &self,
        format: PairFormat,
        columns: Columns,
        [source_kind, target_kind]: [TextKind; 2],
    ) -> Result<PairFileOptions> {
        let is_dictionary = matches!(format, PairFormat::Dict { .. });
        let mut options = PairFileOptions {
            format,
            columns,
            ..PairFileOptions::new(Tokenization::Chars, Tokenization::Spaces)
        };
        let tokenizer = options.source();
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        // The beginning of a sorted file is not representative.
        let apart = lines(&self.bytes).count().div_ceil(Self::GUESSED).max(1);
        self.for_each_line_of(&options, apart, |Texts { source, target }| {
            sources.push(tokenizer.divide(&source).1.to_owned());
            targets.push(target.into_owned());
            Ok(())
        })?;
        if !is_dictionary {
            let (sources, targets) = (sources.iter(), targets.iter());
            options.source_tokens = Tokenization::guess(source_kind, sources.map(String::as_str));
            options.target_tokens = Tokenization::guess(target_kind, targets.map(String::as_str));
        }
        options.normalization = Normalization::guess(sources.iter().map(String::as_str));
        Ok(options)
    }

    /// The pairs, in the order of their lines.
    ///
    /// # Errors
    /// [`Error::PairLine`] for a line that is empty, not UTF-8 or not in the format, that lacks a column, a source or a
    /// target, or that has a control character in one or too many tokens; [`Error::EmptyData`] if there is no pair;
    /// [`Error::Config`] for a column 0 or the same column twice.
    pub fn pairs(&self, options: &PairFileOptions) -> Result<Vec<Pair>> {
        let (source_tokens, target_tokens) = (options.source(), options.target());
        let mut pairs = Vec::new();
        self.for_each_pair(options, |source, target| {
            pairs.push(Pair {
                source: source_tokens.owned_tokens(source),
                target: target_tokens.owned_tokens(target),
            });
        })?;
        Ok(pairs)
    }

    /// Passes the [prepared](Tokenizer::prepare) texts of source and target of each pair to `take`, after counting
    /// their tokens.
    pub(crate) fn for_each_pair(
        &self,
        options: &PairFileOptions,
        mut take: impl FnMut(&str, &str),
    ) -> Result<()> {
        let check = |side: &str, tokenizer: &Tokenizer, prepared: &str| {
            let (count, most) = (tokenizer.tokens(prepared).count(), options.max_tokens);
            if count <= most {
                return Ok(());
            }
            let expected = format!("a {side} of at most {most} tokens (--max-tokens)");
            Err(LineError::new(expected, count.to_string()))
        };
        let (source_tokens, target_tokens) = (options.source(), options.target());
        self.for_each_line_of(options, 1, |Texts { source, target }| {
            let source = source_tokens.prepare(&source);
            let target = target_tokens.prepare(&target);
            check("source", &source_tokens, &source)?;
            check("target", &target_tokens, &target)?;
            take(&source, &target);
            Ok(())
        })
    }

    /// Passes the texts of a line to `take`, then those of the next line with texts that is at least `apart` lines
    /// further on: 1 for all lines.
    fn for_each_line_of<'a>(
        &'a self,
        options: &PairFileOptions,
        apart: usize,
        mut take: impl FnMut(Texts<'a>) -> LineResult<()>,
    ) -> Result<()> {
        let columns = options.columns.check()?;
        if lines(&self.bytes).next().is_none() {
            return Err(self.empty("line"));
        }
        let layout = self.layout(&options.format)?;
        let mut next = 0;
        for (index, line) in lines(&self.bytes).enumerate() {
            if index < next {
                continue;
            }
            let mut read = || {
                let line = utf8(line)?;
                let texts = match (&options.format, layout) {
                    (PairFormat::Dict { stress }, Some(layout)) => {
                        dict::texts(index, line, *stress, layout)?
                    }
                    (PairFormat::Jsonl(fields), _) => Some(jsonl::texts(line, fields)?),
                    _ => Some(tsv::texts(line, columns)?),
                };
                texts.map(&mut take).transpose()
            };
            let taken = read().map_err(|error| self.at_line(index, error))?;
            next = taken.map_or(next, |()| index + apart);
        }
        match next {
            0 => Err(self.empty("pair")),
            _ => Ok(()),
        }
    }

    /// The layout of a dictionary, which is found once.
    fn layout(&self, format: &PairFormat) -> Result<Option<&dict::Layout>> {
        let PairFormat::Dict { .. } = format else {
            return Ok(None);
        };
        if let Some(layout) = self.layout.get() {
            return Ok(Some(layout));
        }
        let texts = lines(&self.bytes).enumerate();
        let texts = texts.filter_map(|(index, line)| Some((index, utf8(line).ok()?)));
        let layout =
            dict::Layout::of(texts).map_err(|(index, error)| self.at_line(index, error))?;
        Ok(Some(self.layout.get_or_init(|| layout)))
    }

    /// The fault of the line at `index`.
    fn at_line(&self, index: usize, LineError { expected, found }: LineError) -> Error {
        Error::PairLine {
            path: self.path.clone(),
            line: index + 1,
            expected,
            found,
        }
    }

    /// The error of a file without any `what`.
    fn empty(&self, what: &str) -> Error {
        let what = format!("{} holds no {what}", self.path.display());
        Error::EmptyData { what }
    }
}

/// The lines of a file, without a byte order mark and without empty lines at its end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = Some(trim_end(text)).filter(|text| !text.is_empty());
    let lines = text.map(|text| text.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten()
}

/// A line as text.
fn utf8(line: &[u8]) -> LineResult<&str> {
    std::str::from_utf8(line).map_err(|invalid| {
        let byte = invalid.valid_up_to() + 1;
        let is_wide = line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff");
        let from = if is_wide { "UTF-16" } else { "LATIN1" };
        let found = format!(
            "other bytes from byte {byte} on; `iconv -f {from} -t UTF-8` may convert the file"
        );
        LineError::new("UTF-8 text", found)
    })
}
