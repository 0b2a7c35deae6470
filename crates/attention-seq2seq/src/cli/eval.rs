//! `seq2seq eval`

use std::path::PathBuf;

use attention_seq2seq::{
    Corpus, DataSource, Error, Result, TokenErrors, Translator, TsvFile, TsvOptions,
};
use clap::Args;

use super::{Model, say, tokens};

#[derive(Args)]
pub(crate) struct EvalArgs {
    /// A file of pairs, in the columns and tokens of the training file [default: the validation pairs of training].
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
}

impl EvalArgs {
    pub(crate) fn run(self) -> Result<()> {
        let translator = self.model.load()?;
        let config = translator.config();
        let corpus = match (&self.data, &config.data) {
            (Some(file), DataSource::Tsv { options, .. }) => {
                let any_length = TsvOptions {
                    max_tokens: usize::MAX,
                    ..*options
                };
                Corpus::to_validate(&TsvFile::read(file)?, &any_length)?
            }
            (Some(_), DataSource::Task { task, .. }) => {
                return Err(Error::Config {
                    what: "--data".to_string(),
                    expected: "a model that was trained on a file".to_string(),
                    found: format!("one trained on the task `{task}`"),
                });
            }
            (None, data) => {
                let mut corpus = data.corpus(config.train.seed)?;
                if matches!(data, DataSource::Tsv { .. }) {
                    let expected = "those of training (--data evaluates others)";
                    config.check_data(corpus.checksum(), self.model.folder(), expected)?;
                }
                corpus.forget_train();
                corpus
            }
        };
        report(&translator.valid_errors(&corpus), &translator)
    }
}

/// Prints the error rates of a translator, and how many outputs it cut off.
pub(crate) fn report(errors: &TokenErrors, translator: &Translator) -> Result<()> {
    let limit = tokens(translator.max_len());
    let cut_off = match errors.cut_off() {
        0 => String::new(),
        count => {
            let outputs = if count == 1 { "output" } else { "outputs" };
            format!(
                "; {count} {outputs} reached the limit of {limit} (eval --max-length raises it)"
            )
        }
    };
    say(format_args!(
        "{} sources: exact match {:.2} %, sequence error rate {:.2} %, token error rate {:.2} %{cut_off}",
        errors.sequences(),
        100.0 * errors.exact_match(),
        100.0 * errors.sequence_error_rate(),
        100.0 * errors.token_error_rate(),
    ))
}
