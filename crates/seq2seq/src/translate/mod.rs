//! `seq2seq translate`

mod answers;
mod dictionary;
mod format;
mod lines;
mod search;

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use attention_seq2seq::text::UnknownTokens;
use attention_seq2seq::{Error, Result, Translator};
use clap::Args;

use crate::machine::among_threads;
use crate::model::Model;
use crate::output::{CutOff, exit_code, note, report, say, without_mark};
use crate::values;
use answers::{Answer, Answerer, Named};
use dictionary::Dictionary;
use format::{Alignments, Format, Writer};
use lines::{Line, next_lines};
use search::SearchArgs;

#[derive(Args)]
pub(crate) struct TranslateArgs {
    /// The texts to translate; without any, the lines of the standard input. A line that cannot be translated has an
    /// empty line as its output, and its error on the standard error.
    texts: Vec<String>,
    #[command(flatten)]
    search: SearchArgs,
    /// The form of the outputs: text, a line for each source, whose outputs are divided by TAB where there are several;
    /// tsv, a line for each output: source, output, log-probability; jsonl, an object for each source with all that is
    /// known of its outputs.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The source tokens that the tokens of an output were predicted from, after it: pharaoh, the one of the greatest
    /// attention weight for each, `source-target` from 0; json, all weights, the end's too. Tokens that are left out
    /// count, and have weights of 0. A Transformer's weights are the mean over the heads of its last layer.
    #[arg(long, value_enum, value_name = "FORM")]
    alignments: Option<Alignments>,
    /// A file of pairs that are right, in the columns and tokens of the training file: its sources have its targets as
    /// outputs, and the model translates the others.
    #[arg(long, value_name = "FILE")]
    dictionary: Option<PathBuf>,
    /// How source tokens are read that the model has not learned; the standard error names the first twenty of them.
    #[arg(long, value_parser = values::unknown_tokens(), value_name = "HOW", default_value_t)]
    unknown: UnknownTokens,
    /// The most sources that are translated at once; it changes no output of a search with beams.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    batch_size: Option<usize>,
    #[command(flatten)]
    model: Model,
}

impl TranslateArgs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let several = self.search.n_best() != Some(1);
        if self.alignments.is_some() && self.format == Format::Text && several {
            let expected = "--format tsv or jsonl, where sources may have several outputs";
            return Err(Error::config("--alignments", expected, "--format text"));
        }
        let mut translator = self.model.load()?;
        if let Some(batch_size) = self.batch_size {
            translator = translator.with_batch_size(batch_size)?;
        }
        let dictionary = self.dictionary.as_ref();
        let dictionary = dictionary.map(|file| Dictionary::read(file, &translator));
        let answerer = Answerer {
            search: self.search.config(self.format != Format::Text)?,
            dictionary: dictionary.transpose()?,
            alignments: self.alignments,
            unknown: self.unknown,
            named: Mutex::new(Named::new(self.unknown)),
            translator,
        };
        answerer.check()?;
        if self.search.has_idle_penalty() {
            note(
                "note: with --mass outputs come by their probability: --length-penalty and --coverage-penalty are idle",
            );
        }
        let writer = Writer {
            format: self.format,
            with_alignments: self.alignments.is_some(),
        };
        let mut cut_off = CutOff::new(&answerer.translator);
        if self.texts.is_empty() {
            return translate_lines(&answerer, &writer, &mut cut_off);
        }
        let texts = self.texts.iter().map(|text| without_mark(text));
        let lines = texts.map(|text| Line::of_text(text, &answerer));
        let lines: Vec<Line> = lines.collect::<Result<_>>()?;
        print(&answerer, &writer, &lines, |index| {
            cut_off.note(format_args!("the output of text {}", index + 1));
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Translates the standard input. Outputs correspond to inputs line by line.
fn translate_lines(answerer: &Answerer, writer: &Writer, cut_off: &mut CutOff) -> Result<ExitCode> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut read = 0;
    let mut failed = false;
    loop {
        let lines = next_lines(&mut input, answerer.translator.window_size())?;
        if lines.is_empty() {
            return Ok(exit_code(failed));
        }
        let lines = lines.iter().zip(read + 1..).map(|(bytes, line)| {
            Line::of_bytes(bytes, line == 1, answerer).unwrap_or_else(|source| {
                failed = true;
                let source = Box::new(source);
                let error = Error::InputLine { line, source };
                report(&error);
                Line::failed(bytes, &error)
            })
        });
        let lines: Vec<Line> = lines.collect();
        print(answerer, writer, &lines, |index| {
            let line = read + index + 1;
            let output = format!("line {line} of the standard input: the output");
            cut_off.note(output);
        })?;
        read += lines.len();
    }
}

/// Prints the outputs of each line. `note_cut_off` is called for each line with an output that was cut off.
fn print(
    answerer: &Answerer,
    writer: &Writer,
    lines: &[Line],
    mut note_cut_off: impl FnMut(usize),
) -> Result<()> {
    let translator: &Translator = &answerer.translator;
    let mut numbered = lines.iter().enumerate();
    for lines in lines.chunks(translator.window_size()) {
        let mut answers = among_threads(|| answerer.answers(lines))?.into_iter();
        for (index, line) in numbered.by_ref().take(lines.len()) {
            let answers: Vec<Answer> = answers.next().unwrap_or_default();
            if answers.iter().any(|answer| !answer.ended) {
                note_cut_off(index);
            }
            for line in writer.lines(line, &answers)? {
                say(line)?;
            }
        }
    }
    Ok(())
}
