//! Lines on the standard output and the standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;

use attention_plot::is_control;
use attention_seq2seq::train::Launched;
use attention_seq2seq::{Error, Result, Translator};

/// The name of the standard output in errors.
pub(crate) const STANDARD_OUTPUT: &str = "the standard output";

/// Prints a line, unless another process prints for this one.
///
/// # Errors
/// [`Error::Io`] if that fails; [`is_closed_output`] tells whether the reader has closed it.
pub(crate) fn say(line: impl Display) -> Result<()> {
    if is_further() {
        return Ok(());
    }
    writeln!(io::stdout(), "{line}").map_err(|source| Error::io("write", STANDARD_OUTPUT, source))
}

/// Prints a line, if anybody reads it, for work that goes on without a reader, as in `seq2seq train | head`.
pub(crate) fn say_to_anyone(line: impl Display) -> Result<()> {
    say(line).or_else(|error| match is_closed_output(&error) {
        true => Ok(()),
        false => Err(error),
    })
}

/// Whether the standard output was closed by its reader. The program then ends without an error.
pub(crate) fn is_closed_output(error: &Error) -> bool {
    match error {
        Error::Io { path, source, .. } => {
            path == Path::new(STANDARD_OUTPUT) && source.kind() == ErrorKind::BrokenPipe
        }
        _ => false,
    }
}

/// Whether the standard output is a terminal with a reader; an MPI launcher may collect through one.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal() && LAUNCHED.is_none()
}

/// The place of this process among others, if an MPI launcher started it.
pub(crate) static LAUNCHED: LazyLock<Option<Launched>> = LazyLock::new(Launched::of_environment);

/// Whether this is not the first of several processes; the first prints for all.
pub(crate) fn is_further() -> bool {
    LAUNCHED.is_some_and(|launched| launched.rank > 0)
}

/// Prints a line on the standard error, unless another process prints for this one.
pub(crate) fn note(line: impl Display) {
    if !is_further() {
        complain(line);
    }
}

/// Prints a line on the standard error. `eprintln!` would panic if it is closed.
fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", escaped(&line.to_string()));
}

/// A text for a line in a terminal, with control characters, which would act on the terminal or change the direction of
/// adjacent text, as their codes.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |c: char| match is_control(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// A text without the byte order mark that some programs write at the beginning of a file.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Notes of one kind, such as one per line of a stream: the first few, and at the end how many more there were.
pub(crate) struct Notes {
    most: usize,
    count: usize,
    /// The line about the number of further notes.
    of_others: Box<dyn Fn(usize) -> String + Send>,
}

impl Notes {
    pub(crate) fn new(most: usize, of_others: impl Fn(usize) -> String + Send + 'static) -> Self {
        Self {
            most,
            count: 0,
            of_others: Box::new(of_others),
        }
    }

    pub(crate) fn note(&mut self, line: impl Display) {
        self.count += 1;
        if self.count <= self.most {
            note(line);
        }
    }
}

/// Prints the number of further notes, also if the program ends early because nobody reads its output.
impl Drop for Notes {
    fn drop(&mut self) {
        if self.count > self.most {
            note((self.of_others)(self.count - self.most));
        }
    }
}

/// Reports on the standard error that outputs were cut off, and what to do about it.
pub(crate) struct CutOff {
    limit: String,
    notes: Notes,
}

impl CutOff {
    pub(crate) fn new(translator: &Translator) -> Self {
        const MOST: usize = 5;
        let limit = tokens(translator.max_len());
        let limit = format!("reached the limit of {limit}; --max-length N raises it");
        let of_others = limit.clone();
        Self {
            limit,
            notes: Notes::new(MOST, move |count| {
                format!("note: {count} more of the outputs {of_others}")
            }),
        }
    }

    pub(crate) fn note(&mut self, output: impl Display) {
        let limit = &self.limit;
        self.notes.note(format_args!("note: {output} {limit}"));
    }
}

pub(crate) fn tokens(count: usize) -> String {
    match count {
        1 => "1 token".to_string(),
        _ => format!("{count} tokens"),
    }
}

/// The exit code after an error.
pub(crate) const FAILED: u8 = 2;

/// The exit code of a command that continues after an error.
pub(crate) fn exit_code(failed: bool) -> ExitCode {
    match failed {
        true => ExitCode::from(FAILED),
        false => ExitCode::SUCCESS,
    }
}

/// Prints an error on the standard error.
pub(crate) fn report(error: impl Display) {
    complain(format_args!("error: {}", one_line(&error)));
}

/// An error as one line of readable length, whatever names and tokens it contains.
pub(crate) fn one_line(error: &impl Display) -> String {
    const MOST: usize = 600;
    let line: Vec<char> = error.to_string().chars().collect();
    let shown = |chars: &[char]| escaped(&chars.iter().collect::<String>());
    if line.len() <= MOST {
        return shown(&line);
    }
    // The fault is at either end.
    let (head, tail) = (&line[..MOST / 2], &line[line.len() - MOST / 2..]);
    format!("{} .. {}", shown(head), shown(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_path(path: &str) -> String {
        one_line(&Error::io("read", path, ErrorKind::NotFound.into()))
    }

    #[test]
    fn an_error_is_one_line_of_bounded_length() {
        let expected = "cannot read a\\nb\\u{1b}[31m\\u{202e}é: entity not found";
        assert_eq!(of_path("a\nb\u{1b}[31m\u{202e}é"), expected);
        let long = of_path(&"x".repeat(100_000));
        assert_eq!(long.chars().count(), 604);
        assert!(long.starts_with("cannot read xxx"), "{long}");
        let is_cut = long.contains("xxx .. xxx") && long.ends_with("x: entity not found");
        assert!(is_cut, "{long}");
    }
}
