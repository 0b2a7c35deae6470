//! The outputs of texts, by a dictionary and a model.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use attention_seq2seq::model::AttentionHead;
use attention_seq2seq::text::{ReadTokens, UnknownTokens};
use attention_seq2seq::translate::{Attended, Hypothesis, ScoredHypothesis};
use attention_seq2seq::{Result, SearchConfig, Translator};

use super::dictionary::Dictionary;
use super::lines::Line;
use crate::output::Notes;
use crate::unknown::{MOST_UNKNOWN, reading};

/// An output of a source.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) tokens: Vec<String>,
    pub(super) ended: bool,
    pub(super) origin: Origin,
    /// The weights that its tokens were predicted with, if they are asked for.
    pub(super) alignment: Option<Attended>,
}

/// The origin of an output.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    Dictionary,
    /// The model, by greedy search.
    Greedy,
    /// The model, by a search with probabilities.
    Search {
        log_probability: f64,
        score: f64,
    },
}

/// A model, the way it is asked, and what is known without it.
pub(super) struct Answerer {
    pub(super) translator: Translator,
    /// None for greedy search.
    pub(super) search: Option<SearchConfig>,
    pub(super) dictionary: Option<Dictionary>,
    pub(super) with_alignments: bool,
    /// How source tokens are read that the model has not learned.
    pub(super) unknown: UnknownTokens,
    /// The unknown tokens that were named.
    pub(super) named: Mutex<Named>,
}

/// The unknown tokens that were met, and the notes that name them.
pub(super) struct Named {
    tokens: HashSet<String>,
    reading: &'static str,
    notes: Notes,
}

impl Named {
    /// None, before tokens are read this way.
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

    /// The source tokens of a text: as in the dictionary, if it is there, or known to the model, or else read as told.
    /// The first unknown ones are named, each once.
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

    /// The answers to each line, none to one without tokens.
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
            if self.with_alignments {
                for answer in &mut answers {
                    self.align(&line.read, answer)?;
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
                ended: output.ended,
                origin: Origin::Greedy,
                alignment: None,
            };
            return Ok(outputs.map(|output| vec![answer(output)]).collect());
        };
        let outputs = self.translator.n_best_tokens(sources, search)?;
        let answer = |output: ScoredHypothesis| Answer {
            text: output.text,
            tokens: output.tokens,
            ended: output.ended,
            origin: Origin::Search {
                log_probability: output.log_probability,
                score: output.score,
            },
            alignment: None,
        };
        let of_source = |outputs: Vec<_>| outputs.into_iter().map(answer).collect();
        Ok(outputs.into_iter().map(of_source).collect())
    }

    /// The targets as outputs, at most the number that the search may give.
    fn by_dictionary(&self, targets: &[Vec<String>]) -> Vec<Answer> {
        let most = match &self.search {
            Some(search) => search.most_outputs(),
            None => 1,
        };
        let answer = |tokens: &Vec<String>| Answer {
            text: self.translator.target_text(tokens),
            tokens: tokens.clone(),
            ended: true,
            origin: Origin::Dictionary,
            alignment: None,
        };
        targets.iter().take(most).map(answer).collect()
    }

    /// Adds the weights of an output of the model: by the output itself, so that they are right for any hypothesis.
    fn align(&self, source: &ReadTokens, answer: &mut Answer) -> Result<()> {
        if !matches!(answer.origin, Origin::Dictionary) {
            let head = AttentionHead::default();
            let translator = &self.translator;
            let aligned =
                translator.attend_to(&source.tokens, &answer.tokens, answer.ended, head)?;
            answer.alignment = Some(aligned.in_text(source));
        }
        Ok(())
    }
}
