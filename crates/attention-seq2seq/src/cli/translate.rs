//! `seq2seq translate`

use std::io::BufRead;

use attention_seq2seq::{Error, Result, Translator};
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
        if !self.texts.is_empty() {
            return translate(&translator, &self.texts);
        }
        for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
            let line = line.map_err(|source| Error::Io {
                action: "read",
                path: "the standard input".into(),
                source,
            })?;
            if line.trim().is_empty() {
                // Outputs stay in line with inputs.
                say("")?;
            } else {
                translate(&translator, &[line]).map_err(|source| Error::InputLine {
                    line: number,
                    source: Box::new(source),
                })?;
            }
        }
        Ok(())
    }
}

fn translate(translator: &Translator, texts: &[String]) -> Result<()> {
    let outputs = translator.translate_texts(texts)?;
    outputs.iter().try_for_each(say)
}
