//! `seq2seq eval`

mod alignment;
mod json;

use std::path::{Path, PathBuf};

use attention_seq2seq::data::{Corpus, PairFormat};
use attention_seq2seq::evaluation::EvaluationConfig;
use attention_seq2seq::metrics::{Bleu, Bootstrap, Interval, TokenErrors};
use attention_seq2seq::text::UnknownTokens;
use attention_seq2seq::translate::explain::ExplainConfig;
use attention_seq2seq::{
    DataSource, Error, Evaluation, Result, RunConfig, RunDir, SearchConfig, Translator,
};
use clap::{Args, ValueEnum};

use crate::machine::among_threads;
use crate::model::Model;
use crate::output::{note, say, tokens};
use crate::page::{self, EvaluatedModel, Page, ReportConfig};
use crate::pairs::read_file;
use crate::unknown::{MOST_UNKNOWN, reading};
use crate::values;

/// The default of `--report-items`: about a megabyte for words.
const REPORT_ITEMS: usize = 100;

/// The largest number of outputs of each source in a report.
const REPORT_OUTPUTS: usize = 3;

#[derive(Args)]
pub(crate) struct EvalArgs {
    /// A file of pairs, in the columns and tokens of the training file [default: the validation pairs of training].
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// The format of this file: tsv, dict or jsonl [default: as the ending .dict or .jsonl tells, else as in training].
    #[arg(long, value_name = "FORMAT", requires = "data")]
    input_format: Option<PairFormat>,
    /// List N wrong outputs, most edits first, aligned to the closest reference.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(default_value_t = 0)]
    errors: usize,
    /// How source tokens are read that the model has not learned. A target with one is always wrong.
    #[arg(long, value_parser = values::unknown_tokens(), value_name = "HOW", default_value_t = UnknownTokens::Unk)]
    unknown: UnknownTokens,
    /// The form of the figures: lines to read, or one JSON object with all of them, rates as shares of 1, BLEU and chrF
    /// in percent. The lines name BLEU and chrF where at least half of the sources and of the targets hold a space.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Save a report to this .html file: a page with the figures and the sources, each with what its outputs attend to,
    /// their alternatives and their difference to the reference.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The most sources in the report, those with the worst outputs first: the most edits, then the least probable
    /// [default: 100].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(requires = "report")]
    report_items: Option<usize>,
    /// The folder of another training, whose model is evaluated on the same pairs and shown beside the first in the
    /// report. (Several --model are one.)
    #[arg(long, value_name = "DIR", requires = "report")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
}

/// The form of the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

impl EvalArgs {
    pub(crate) fn run(self) -> Result<()> {
        if let Some(file) = &self.report {
            page::check_name("--report", file)?;
        }
        let (translator, other) = self.model.load_beside(self.compare.as_deref())?;
        let corpus = self.corpus(translator.config())?;
        let config = EvaluationConfig {
            worst: self.errors,
            unknown: self.unknown,
            with_probabilities: self.report.is_some(),
        };
        let compared = self.compare.iter().map(|it| it.display().to_string());
        let names = [self.model.name()].into_iter().chain(compared);
        let translators = [Some(&translator), other.as_ref()];
        let models: Vec<EvaluatedModel<'_>> = names
            .zip(translators.into_iter().flatten())
            .map(|(name, translator)| {
                Ok(EvaluatedModel {
                    name,
                    evaluation: Evaluation::new(translator, &corpus, &config)?,
                    translator,
                })
            })
            .collect::<Result<_>>()?;
        let report = self.report.as_ref();
        let saved = report.map(|file| self.save_report(file, &models, &corpus));
        let saved = saved.transpose()?;
        match self.format {
            Format::Text => {
                self.print(&models)?;
                saved.map_or(Ok(()), say)
            }
            Format::Json => {
                saved.into_iter().for_each(note);
                say(json::object(&models))
            }
        }
    }

    /// Saves the report, and returns the line that reports it.
    fn save_report(
        &self,
        file: &Path,
        models: &[EvaluatedModel<'_>],
        corpus: &Corpus,
    ) -> Result<String> {
        let config = ReportConfig {
            items: self.report_items.unwrap_or(REPORT_ITEMS),
            unknown: self.unknown,
            explain: ExplainConfig {
                search: SearchConfig::new().with_n_best(Some(REPORT_OUTPUTS)),
                ..ExplainConfig::default()
            },
        };
        let page = || Page::report("Evaluation", models, corpus, &config);
        let page = among_threads(page)?;
        let bytes = page.save(file)?;
        Ok(format!(
            "saved {}: {} of {} sources, {}",
            file.display(),
            page.items.len(),
            page.evaluated.unwrap_or(0),
            page::size(bytes),
        ))
    }

    /// The pairs to evaluate on.
    fn corpus(&self, config: &RunConfig) -> Result<Corpus> {
        match (&self.data, &config.data) {
            (Some(file), DataSource::Files { options, .. }) => {
                let options = options.of_other(file, self.input_format.clone())?;
                Corpus::to_validate(&read_file(file, &options)?, &options)
            }
            (Some(_), DataSource::Task { task, .. }) => {
                let expected = "a model that was trained on a file";
                let found = format!("one trained on the task `{task}`");
                Err(Error::config("--data", expected, found))
            }
            (None, data) => {
                let mut corpus = data.corpus(config.train.seed)?;
                if matches!(data, DataSource::Files { .. }) {
                    let expected = "those of training (--data evaluates others)";
                    config.check_data(corpus.checksum(), self.model.folder(), expected)?;
                }
                corpus.forget_train();
                self.note_learned(config)?;
                Ok(corpus)
            }
        }
    }

    /// Names the other models for which the first one's validation pairs are no fair test.
    fn note_learned(&self, config: &RunConfig) -> Result<()> {
        let split = |config: &RunConfig| match &config.data {
            DataSource::Files { train, valid, .. } => {
                Some((train.clone(), valid.is_none().then_some(config.train.seed)))
            }
            DataSource::Task { .. } => None,
        };
        let Some((file, Some(seed))) = split(config) else {
            return Ok(());
        };
        for folder in self.model.further().chain(&self.compare) {
            let other = split(&RunDir::new(folder).load_config()?);
            if other.is_some_and(|(of, by)| of == file && by != Some(seed)) {
                note(format_args!(
                    "note: the model in {} has learned from some of these pairs, which the first left out of its \
                     training (--data evaluates others; training with --valid keeps them apart)",
                    folder.display()
                ));
            }
        }
        Ok(())
    }

    fn print(&self, models: &[EvaluatedModel<'_>]) -> Result<()> {
        for (index, model) in models.iter().enumerate() {
            if index > 0 {
                say(format_args!("\ncompared with {}:", model.name))?;
            }
            self.print_one(&model.evaluation, model.translator)?;
        }
        Ok(())
    }

    fn print_one(&self, evaluation: &Evaluation, translator: &Translator) -> Result<()> {
        let sums = evaluation.sums();
        report(&sums.errors, translator)?;
        let bootstrap = Bootstrap::default();
        let intervals = evaluation.intervals(&bootstrap);
        say(format_args!(
            "{} % confidence: sequence error rate {} %, token error rate {} %",
            100.0 * bootstrap.confidence,
            range(intervals.sequence_error_rate, 100.0),
            range(intervals.token_error_rate, 100.0),
        ))?;
        if evaluation.is_of_sentences() {
            say(format_args!(
                "BLEU {:.2} ({}), chrF {:.2} ({})",
                sums.bleu.score(),
                range(intervals.bleu, 1.0),
                sums.chrf.score(),
                range(intervals.chrf, 1.0),
            ))?;
            if !sums.bleu.has_all_orders() {
                say(format_args!(
                    "no output has {} words: BLEU is 0, whatever they are",
                    Bleu::MAX_ORDER
                ))?;
            }
        }
        if !evaluation.unknown().is_empty() {
            let reading = reading(self.unknown);
            say(named("source", reading, evaluation.unknown()))?;
        }
        if !evaluation.unknown_targets().is_empty() {
            let wrong = match evaluation.out_of_reach() {
                0 => String::new(),
                1 => " (1 source can only be wrong)".to_string(),
                count => format!(" ({count} sources can only be wrong)"),
            };
            let reading = format!("which no output has{wrong}");
            say(named("target", &reading, evaluation.unknown_targets()))?;
        }
        for wrong in evaluation.worst() {
            say("")?;
            say(alignment::described(wrong))?;
        }
        Ok(())
    }
}

/// Prints the error rates of a translator, and the number of outputs it cut off.
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

/// An interval, times a factor.
fn range(interval: Interval, factor: f64) -> String {
    let Interval { lower, upper } = interval;
    format!("{:.2} to {:.2}", factor * lower, factor * upper)
}

/// The line that names the tokens that the model has not learned.
fn named(side: &str, reading: &str, found: &[String]) -> String {
    let named = found.iter().take(MOST_UNKNOWN);
    let named: Vec<String> = named.map(|token| format!("{token:?}")).collect();
    let others = match found.len().saturating_sub(MOST_UNKNOWN) {
        0 => String::new(),
        1 => " and 1 other".to_string(),
        others => format!(" and {others} others"),
    };
    let named = named.join(" ");
    format!("unknown {side} tokens, {reading}: {named}{others}")
}
