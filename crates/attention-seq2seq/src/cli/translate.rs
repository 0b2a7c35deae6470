//! `seq2seq translate`

use std::io::{BufRead, Write};

use attention_seq2seq::{Error, Result};
use attention_seq2seq::translate::Translator;
use clap::Args;

use super::Model;

#[derive(Args)]
pub(crate) struct TranslateArgs {
    /// The texts to translate; without any, the lines of the standard input.
    texts: Vec<String>,
    #[command(flatten)]
    model: Model,
}

impl TranslateArgs {
    pub(crate) fn run(self) -> Result<()> {
        let translator = self.model.load()?;
        match self.texts.is_empty() {
            false => translate(&translator, &self.texts),
            true => std::io::stdin().lock().lines().try_for_each(|line| {
                let line = line.map_err(|source| io("read", "the standard input", source))?;
                match line.trim().is_empty() {
                    true => Ok(()),
                    false => translate(&translator, &[line]),
                }
            }),
        }
    }
}

fn translate(translator: &Translator, texts: &[String]) -> Result<()> {
    let sources: Vec<Vec<String>> =
        texts.iter().map(|text| translator.source_tokens(text)).collect::<Result<_>>()?;
    let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
    let mut output = std::io::stdout().lock();
    for tokens in translator.translate(&sources) {
        writeln!(output, "{}", translator.target_text(&tokens))
            .map_err(|source| io("write", "the standard output", source))?;
    }
    Ok(())
}

fn io(action: &'static str, what: &str, source: std::io::Error) -> Error {
    Error::Io {
        action,
        path: what.into(),
        source,
    }
}
