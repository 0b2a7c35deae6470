//! The outputs of texts, by a dictionary and a model.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use attention_seq2seq::model::AttentionHead;
use attention_seq2seq::text::{ReadTokens, UnknownTokens};
use attention_seq2seq::translate::{Hypothesis, ScoredHypothesis};
use attention_seq2seq::{Result, SearchConfig, Translator};
use serde::Serialize;

use super::dictionary::Dictionary;
use super::format::{Alignment, Alignments};
use super::lines::Line;
use crate::output::Notes;
use crate::unknown::{MOST_UNKNOWN, reading};

/// An output of a source, in JSON.
#[derive(Serialize)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) tokens: Vec<String>,
    by: Origin,
    /// False if the output was cut off at the limit of tokens.
    pub(super) ended: bool,
    /// The probability and the score, from searches that compute them.
    pub(super) log_probability: Option<f64>,
    score: Option<f64>,
    /// The source tokens that its tokens were predicted from, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alignment: Option<Alignment>,
}

/// The origin of an output.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Origin {
    Dictionary,
    Model,
}

/// A model, how it is queried, and outputs known without it.
pub(super) struct Answerer {
    pub(super) translator: Translator,
    /// `None` for greedy search.
    pub(super) search: Option<SearchConfig>,
    pub(super) dictionary: Option<Dictionary>,
    pub(super) alignments: Option<Alignments>,
    /// How source tokens that the model has not learned are read.
    pub(super) unknown: UnknownTokens,
    /// The unknown tokens that were named.
    pub(super) named: Mutex<Named>,
}

/// The unknown tokens that occurred, and the notes that name them.
pub(super) struct Named {
    tokens: HashSet<String>,
    reading: &'static str,
    notes: Notes,
}

impl Named {
    /// No tokens yet, when tokens are read this way.
    pub(super) fn new(unknown: UnknownTokens) -> Self {
        let reading = reading(unknown);
        Self {
            tokens: HashSet::new(),
            reading,
            notes: Notes::new(MOST_UNKNOWN, move |count| match count {
                1 => format!("note: 1 more unknown token is {reading}"),
                _ => format!("note: {count} more unknown tokens are {reading}"),
            }),
        }
    }

    fn add(&mut self, token: &str) {
        if !self.tokens.contains(token) {
            let reading = self.reading;
            self.notes
                .note(format_args!("note: unknown token {token:?} is {reading}"));
            self.tokens.insert(token.to_owned());
        }
    }
}

impl Answerer {
    /// Checks the settings before the first text is read.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(search) = &self.search {
            search.check(self.translator.max_len())?;
            self.translator.target_tokens(&search.prefix)?;
        }
        Ok(())
    }

    /// The source tokens of a text: those of the dictionary, if it has them, or known to the model, otherwise read as
    /// requested. The first unknown tokens are named, each once.
    pub(super) fn read(&self, text: &str) -> Result<ReadTokens> {
        let read = self.translator.read_source(text, self.unknown)?;
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        read.unknown.iter().for_each(|token| named.add(token));
        Ok(read)
    }

    /// Whether the dictionary has the source.
    pub(super) fn knows(&self, source: &[String]) -> bool {
        self.known(source).is_some()
    }

    fn known(&self, source: &[String]) -> Option<&[Vec<String>]> {
        self.dictionary.as_ref()?.targets(source)
    }

    /// The answers to each line; none to a line without tokens.
    pub(super) fn answers(&self, lines: &[Line]) -> Result<Vec<Vec<Answer>>> {
        let unknown = |line: &&Line| !line.read.tokens.is_empty() && !line.is_known;
        let sources = lines.iter().filter(unknown);
        let sources: Vec<&[String]> = sources.map(|line| &line.read.tokens[..]).collect();
        let mut by_model = self.by_model(&sources)?.into_iter();
        let answers = lines.iter().map(|line| {
            let known = self.known(&line.read.tokens).filter(|_| line.is_known);
            let mut answers = match known {
                _ if line.read.tokens.is_empty() => Vec::new(),
                Some(targets) => self.by_dictionary(targets),
                None => by_model.next().unwrap_or_default(),
            };
            if let Some(form) = self.alignments {
                let outputs = answers.iter_mut().filter(|it| it.by == Origin::Model);
                for answer in outputs {
                    answer.alignment = Some(self.alignment(&line.read, answer, form)?);
                }
            }
            Ok(answers)
        });
        answers.collect()
    }

    fn by_model(&self, sources: &[&[String]]) -> Result<Vec<Vec<Answer>>> {
        let Some(search) = &self.search else {
            let outputs = self.translator.translate_tokens(sources)?.into_iter();
            let answer = |output: Hypothesis| Answer {
                text: output.text,
                tokens: output.tokens,
                by: Origin::Model,
                ended: output.ended,
                log_probability: None,
                score: None,
                alignment: None,
            };
            return Ok(outputs.map(|output| vec![answer(output)]).collect());
        };
        let outputs = self.translator.n_best_tokens(sources, search)?;
        let answer = |output: ScoredHypothesis| Answer {
            text: output.text,
            tokens: output.tokens,
            by: Origin::Model,
            ended: output.ended,
            log_probability: Some(output.log_probability),
            score: Some(output.score),
            alignment: None,
        };
        let of_source = |outputs: Vec<_>| outputs.into_iter().map(answer).collect();
        Ok(outputs.into_iter().map(of_source).collect())
    }

    /// The targets as outputs, at most as many as the search may give.
    fn by_dictionary(&self, targets: &[Vec<String>]) -> Vec<Answer> {
        let search = self.search.as_ref();
        let most = search.map_or(1, SearchConfig::most_outputs);
        let answer = |tokens: &Vec<String>| Answer {
            text: self.translator.target_text(tokens),
            tokens: tokens.clone(),
            by: Origin::Dictionary,
            ended: true,
            log_probability: None,
            score: None,
            alignment: None,
        };
        targets.iter().take(most).map(answer).collect()
    }

    /// The alignment of an output of the model, computed for that output: it is correct for any hypothesis.
    fn alignment(
        &self,
        source: &ReadTokens,
        answer: &Answer,
        form: Alignments,
    ) -> Result<Alignment> {
        let head = AttentionHead::default();
        let translator = &self.translator;
        let aligned = translator.attend_to(&source.tokens, &answer.tokens, answer.ended, head)?;
        Ok(Alignment::new(form, aligned.in_text(source)))
    }
}
