//! `seq2seq translate`

use std::io::{BufRead, BufReader, StdinLock};
use std::process::ExitCode;

use attention_seq2seq::{Error, Result, Translator};
use clap::Args;

use super::{FAILED, Model, note_cut_off, report, say, without_mark};

/// The most lines that are translated at once.
const LINES: usize = 256;

#[derive(Args)]
pub(crate) struct TranslateArgs {
    /// The texts to translate; without any, the lines of the standard input. A line that cannot be translated has an
    /// empty line as its output, and its error on the standard error.
    texts: Vec<String>,
    #[command(flatten)]
    model: Model,
}

impl TranslateArgs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let translator = self.model.load()?;
        if self.texts.is_empty() {
            return translate_lines(&translator);
        }
        let texts = self.texts.iter().map(|text| without_mark(text));
        let sources: Result<Vec<_>> = texts.map(|text| translator.source_tokens(text)).collect();
        print(&translator, &sources?, |index| {
            format!("the output of text {}", index + 1)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Translates the standard input. Outputs stay in line with inputs.
fn translate_lines(translator: &Translator) -> Result<ExitCode> {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let mut read = 0;
    let mut failed = false;
    loop {
        let lines = next_lines(&mut input)?;
        if lines.is_empty() {
            return Ok(match failed {
                true => ExitCode::from(FAILED),
                false => ExitCode::SUCCESS,
            });
        }
        let mut sources = Vec::new();
        for (line, number) in lines.iter().zip(read + 1..) {
            let source = tokens(translator, line, number == 1);
            sources.push(source.unwrap_or_else(|source| {
                failed = true;
                let source = Box::new(source);
                report(&Error::InputLine {
                    line: number,
                    source,
                });
                Vec::new()
            }));
        }
        print(translator, &sources, |index| {
            let line = read + index + 1;
            format!("line {line} of the standard input: the output")
        })?;
        read += lines.len();
    }
}

/// Prints the translation of each source, an empty line for one without tokens, and notes those that were cut off.
/// `output_of` names the output of a source for these notes.
fn print(
    translator: &Translator,
    sources: &[Vec<String>],
    output_of: impl Fn(usize) -> String,
) -> Result<()> {
    let mut numbered = sources.iter().enumerate();
    for sources in sources.chunks(translator.batch_size()) {
        let known = sources.iter().map(Vec::as_slice);
        let known: Vec<&[String]> = known.filter(|source| !source.is_empty()).collect();
        let mut outputs = translator.translate_tokens(&known).into_iter();
        for (index, source) in numbered.by_ref().take(sources.len()) {
            let output = if source.is_empty() {
                None
            } else {
                outputs.next()
            };
            if output.as_ref().is_some_and(|output| !output.ended) {
                note_cut_off(output_of(index), translator);
            }
            say(output.map(|output| output.text).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// The tokens of a line, none if it is blank. The first line may begin with a byte order mark.
fn tokens(translator: &Translator, line: &[u8], is_first: bool) -> Result<Vec<String>> {
    let text = std::str::from_utf8(line).map_err(|error| Error::Config {
        what: "its text".to_string(),
        expected: "UTF-8".to_string(),
        found: format!("other bytes from byte {} on", error.valid_up_to() + 1),
    })?;
    let text = if is_first { without_mark(text) } else { text };
    if translator.is_blank(text) {
        Ok(Vec::new())
    } else {
        translator.source_tokens(text)
    }
}

/// The next line, and those that have come with it: who writes line by line gets an answer to each. None at the end.
fn next_lines(input: &mut BufReader<StdinLock<'_>>) -> Result<Vec<Vec<u8>>> {
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
