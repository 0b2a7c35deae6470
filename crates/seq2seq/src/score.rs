//! `seq2seq score`

use std::path::PathBuf;
use std::process::ExitCode;

use attention_seq2seq::translate::TokenScores;
use attention_seq2seq::{Error, Pair, Result, Translator};
use clap::Args;

use crate::machine::among_threads;
use crate::model::Model;
use crate::output::{exit_code, note, one_line, say};
use crate::pairs::read_pairs;

/// The number of pairs that are scored at once.
const PAIRS: usize = 256;

#[derive(Args)]
pub(crate) struct ScoreArgs {
    /// A source and its output, and further ones; without any, the pairs of the standard input: source TAB target, or
    /// the columns of the training file. A line for each is printed: source, target, the natural logarithms of the
    /// probabilities of the output, of its tokens and of its end.
    #[arg(value_name = "SOURCE TARGET")]
    texts: Vec<String>,
    /// A file of pairs, in the columns and tokens of the training file.
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    data: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
}

impl ScoreArgs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let translator = self.model.load()?;
        let pairs = if self.texts.is_empty() {
            let file = self.data.unwrap_or_else(|| PathBuf::from("-"));
            read_pairs(&file, &translator)?
        } else {
            pairs_of(&self.texts, &translator)?
        };
        let mut failed = false;
        let mut numbers = 1..;
        for pairs in pairs.chunks(PAIRS) {
            let scores = among_threads(|| scores_of(pairs, &translator));
            for ((pair, scores), number) in pairs.iter().zip(scores).zip(numbers.by_ref()) {
                match scores {
                    Ok(scores) => print(pair, &scores, &translator)?,
                    Err(error) => {
                        failed = true;
                        note(format_args!("error: pair {number}: {}", one_line(&error)));
                        say("")?;
                    }
                }
            }
        }
        Ok(exit_code(failed))
    }
}

/// The pairs in the arguments: every two arguments are a pair.
fn pairs_of(texts: &[String], translator: &Translator) -> Result<Vec<Pair>> {
    let pairs = texts.chunks(2).map(|texts| {
        let [source, target] = texts else {
            let (what, expected) = ("the texts to score", "a source and an output each");
            let found = format!("{:?} alone", texts.concat());
            return Err(Error::config(what, expected, found));
        };
        Ok(Pair {
            source: translator.source_tokens(source)?,
            target: translator.target_tokens(target)?,
        })
    });
    pairs.collect()
}

/// The scores of pairs, all at once; one by one if one of them has an error.
fn scores_of(pairs: &[Pair], translator: &Translator) -> Vec<Result<TokenScores>> {
    let all = pairs.iter();
    let all = all.map(|pair| (&pair.source[..], &pair.target[..]));
    let all: Vec<(&[String], &[String])> = all.collect();
    match translator.score_all(&all) {
        Ok(scores) => scores.into_iter().map(Ok).collect(),
        Err(_) => {
            let score = |(source, target)| translator.score(source, target);
            all.into_iter().map(score).collect()
        }
    }
}

fn print(pair: &Pair, scores: &TokenScores, translator: &Translator) -> Result<()> {
    let tokens = scores.tokens.iter().map(f64::to_string);
    say(format_args!(
        "{}\t{}\t{}\t{}",
        translator.source_text(&pair.source),
        translator.target_text(&pair.target),
        scores.log_probability,
        tokens.collect::<Vec<_>>().join(" ")
    ))
}
