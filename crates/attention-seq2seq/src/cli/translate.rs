//! `seq2seq translate`

use std::io::BufRead;

use attention_seq2seq::translate::Translator;
use attention_seq2seq::{Error, Result};
use clap::Args;

use super::{Model, say};

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
            true => (1..)
                .zip(std::io::stdin().lock().lines())
                .try_for_each(|(number, line)| {
                    let line = line.map_err(|source| Error::Io {
                        action: "read",
                        path: "the standard input".into(),
                        source,
                    })?;
                    match line.trim().is_empty() {
                        // Outputs stay in line with inputs.
                        true => say(""),
                        false => {
                            translate(&translator, &[line]).map_err(|source| Error::InputLine {
                                line: number,
                                source: Box::new(source),
                            })
                        }
                    }
                }),
        }
    }
}

fn translate(translator: &Translator, texts: &[String]) -> Result<()> {
    let sources: Vec<Vec<String>> = texts
        .iter()
        .map(|text| translator.source_tokens(text))
        .collect::<Result<_>>()?;
    let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
    translator
        .translate(&sources)
        .iter()
        .try_for_each(|tokens| say(translator.target_text(tokens)))
}
