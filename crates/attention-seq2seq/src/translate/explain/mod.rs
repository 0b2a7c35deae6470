//! Explanations of outputs: alternatives, attention weights and occlusion of each token.
//!
//! [`Translator::explain`](crate::Translator::explain) makes an [`Explanation`], a plain value that serde writes as
//! JSON. Its JSON form rounds numbers that are only for display: attention weights and changes to three decimals,
//! entropies to four, probabilities to five. Log-probabilities are exact, and non-finite numbers are `null`.

mod config;
mod difference;
mod occlusion;
mod prefix;
mod rounded;
mod size;
mod steps;

pub use config::ExplainConfig;
pub use difference::Difference;
pub use occlusion::Occlusion;
pub use steps::{Alternative, ExplainedStep};

use prefix::Prefix;
use serde::Serialize;

use super::batches::check_sources;
use super::{ScoredHypothesis, SearchConfig, Translator};
use crate::error::Result;
use crate::stop::StopSignal;
use crate::text::unknown::ReadTokens;

/// The outputs of a source, with all that is known about their tokens.
///
/// ```no_run
/// use attention_seq2seq::Translator;
/// use attention_seq2seq::translate::explain::ExplainConfig;
///
/// let translator = Translator::open("runs/cmudict")?;
/// let explanation = translator.explain("read", &ExplainConfig::default())?;
/// for step in &explanation.outputs[explanation.greedy].steps {
///     let best = &step.alternatives[0];
///     println!("{} {:.3}; the most likely is {} {:.3}", step.token, step.probability(), best.token, best.probability);
/// }
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The source, as a text.
    pub source: String,
    /// The source tokens, including unknown ones as they were given.
    pub tokens: Vec<String>,
    /// Whether the model has learned each token; the others are read as `<unk>`.
    pub is_known: Vec<bool>,
    /// The positions of the tokens in the source, counted from 0: with gaps where tokens were [left
    /// out](Self::in_text).
    pub positions: Vec<usize>,
    /// Whether the end of the source is a key of the attention, after the source tokens, as in a Transformer.
    pub attends_to_end: bool,
    /// The outputs, the best first. The output of greedy search is added last, if the search has not found it.
    pub outputs: Vec<ExplainedOutput>,
    /// The index of the output of greedy search: the result of [`translate`](Translator::translate) if no prefix is
    /// set.
    pub greedy: usize,
}

/// An output, token by token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedOutput {
    /// The tokens, joined to a text.
    pub text: String,
    /// Whether the model ended the output. If not, the output was cut off.
    pub ended: bool,
    /// The sum of the log-probabilities of the steps; with subwords also over other divisions of the text, as far as
    /// the search has found them.
    pub log_probability: f64,
    /// The score that orders outputs: the log-probability, if no penalty is set.
    pub score: f64,
    /// A step for each token, and one for the end token if the output has ended.
    pub steps: Vec<ExplainedStep>,
    /// The attention weights of the steps; `None` for an ensemble, which has no attention of its own.
    pub attention: Option<AttentionOfHeads>,
    /// The changes when a source token is dropped; `None` for a source with a single token or with more than
    /// [`ExplainConfig::occlusion_limit`].
    pub occlusion: Option<Occlusion>,
    /// The comparison with the closest reference, if references were given: [`Explanation::with_references`].
    pub difference: Option<Difference>,
}

impl Explanation {
    /// The explanation with the positions of its tokens in the original text, from which other tokens were left out.
    /// `translator` joins all tokens to a text.
    pub fn in_text(self, translator: &Translator, read: &ReadTokens) -> Self {
        Self {
            source: translator.source_text(&read.of_text()),
            positions: read.positions(),
            ..self
        }
    }
}

impl From<ScoredHypothesis> for ExplainedOutput {
    /// An output without weights, changes and alternatives.
    fn from(output: ScoredHypothesis) -> Self {
        Self {
            text: output.text,
            ended: output.ended,
            log_probability: output.log_probability,
            score: output.score,
            steps: Vec::new(),
            attention: None,
            occlusion: None,
            difference: None,
        }
    }
}

impl ExplainedOutput {
    /// The target tokens, without the end token.
    pub fn tokens(&self) -> Vec<String> {
        let count = self.steps.len().saturating_sub(usize::from(self.ended));
        let steps = self.steps[..count].iter();
        steps.map(|step| step.token.clone()).collect()
    }
}

/// The attention weights of all heads in all layers of the decoder; a recurrent model has one head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttentionOfHeads {
    /// The number of layers.
    pub layers: usize,
    /// The number of heads of each layer.
    pub heads: usize,
    /// The weights, `[layers, heads, steps, keys]`, row by row. The keys are the source tokens, and the end token if
    /// [`Explanation::attends_to_end`].
    #[serde(serialize_with = "rounded::weights")]
    pub weights: Vec<f32>,
}

impl Translator {
    /// Explains the best outputs of a text.
    ///
    /// # Errors
    /// The errors of [`source_tokens`](Self::source_tokens) and of [`explain_tokens`](Self::explain_tokens).
    pub fn explain(&self, text: &str, config: &ExplainConfig) -> Result<Explanation> {
        let source = self.source_tokens(text)?;
        self.explain_tokens(&source, config)
    }

    /// Explains the best outputs of a source. Tokens that are not in the vocabulary are read as
    /// [`Vocab::UNK`](crate::Vocab::UNK).
    ///
    /// Probabilities are computed as in [`score`](Self::score), over the tokens that an output can have. An ensemble
    /// has probabilities, too, but no attention weights.
    ///
    /// # Errors
    /// The errors of [`check_explanation`](Self::check_explanation) and of [`n_best_tokens`](Self::n_best_tokens);
    /// [`Error::ExplanationTooLarge`](crate::Error::ExplanationTooLarge) beyond [`ExplainConfig::most_numbers`];
    /// [`Error::Config`](crate::Error::Config) if the weights of an output do not fit into free memory.
    pub fn explain_tokens(&self, source: &[String], config: &ExplainConfig) -> Result<Explanation> {
        self.explain_tokens_until(source, config, || false)
    }

    /// As [`explain_tokens`](Self::explain_tokens), unless `should_stop` returns that nobody waits for the explanation
    /// any more: it is called before each step of each decoding, of which there is one per source token and output.
    ///
    /// # Errors
    /// The errors of [`explain_tokens`](Self::explain_tokens); [`Error::Stopped`](crate::Error::Stopped) once
    /// `should_stop` returns true.
    pub fn explain_tokens_until(
        &self,
        source: &[String],
        config: &ExplainConfig,
        should_stop: impl Fn() -> bool,
    ) -> Result<Explanation> {
        let stop = StopSignal::new(&should_stop);
        let prefix = self.prefix_of(config)?;
        check_sources(&[source])?;
        let (mut found, greedy) = self.outputs_of(source, &config.search, prefix, stop)?;
        self.check_numbers(source, &found, config)?;
        let mut steps = self.steps_of(source, &mut found, config, stop)?;
        let mut occlusions = self.occlusions(source, &found, &steps, config, stop)?;
        let mut explanation = self.unexplained(source);
        for output in found {
            stop.check()?;
            explanation.outputs.push(ExplainedOutput {
                attention: self.attention_of(source, &output)?,
                steps: steps.remove(0),
                occlusion: occlusions.as_mut().map(|all| all.remove(0)),
                ..ExplainedOutput::from(output)
            });
        }
        explanation.greedy = greedy;
        Ok(explanation)
    }

    /// The explanation of a source whose tokens were all dropped: its output is empty, and not the model's.
    pub fn explain_nothing(&self) -> Explanation {
        let mut nothing = self.unexplained(&[]);
        nothing.outputs.push(self.unscored(Vec::new()).into());
        nothing
    }

    /// An explanation without outputs.
    fn unexplained(&self, source: &[String]) -> Explanation {
        let is_known = |token: &String| self.vocabs.source.id(token).is_some();
        Explanation {
            source: self.source_text(source),
            is_known: source.iter().map(is_known).collect(),
            positions: (0..source.len()).collect(),
            tokens: source.to_vec(),
            attends_to_end: !self.is_ensemble() && self.members[0].model.attends_to_end(),
            outputs: Vec::new(),
            greedy: 0,
        }
    }

    /// The outputs that a search finds, and the index of greedy search's output, which is added, without a probability,
    /// if the search did not find it.
    fn outputs_of(
        &self,
        source: &[String],
        search: &SearchConfig,
        prefix: Prefix,
        stop: StopSignal<'_>,
    ) -> Result<(Vec<ScoredHypothesis>, usize)> {
        let Prefix { tokens, is_whole } = prefix;
        if is_whole {
            return Ok((vec![self.unscored(tokens)], 0));
        }
        let found = self.n_best_after(&[source], search, &tokens, stop)?;
        let mut found: Vec<ScoredHypothesis> = found.into_iter().flatten().collect();
        stop.check()?;
        let Some(greedy) = self.greedy_after(source, search.max_len, &tokens, stop)? else {
            return Ok((found, 0));
        };
        // It may be another division of a text that is already an output.
        let is_greedy =
            |output: &ScoredHypothesis| output.text == greedy.text && output.ended == greedy.ended;
        let at = found.iter().position(is_greedy).unwrap_or_else(|| {
            found.push(greedy);
            found.len() - 1
        });
        Ok((found, at))
    }

    /// The output of greedy search after a prefix, without a probability.
    fn greedy_after(
        &self,
        source: &[String],
        max_len: Option<usize>,
        prefix: &[String],
        stop: StopSignal<'_>,
    ) -> Result<Option<ScoredHypothesis>> {
        let unscored = |tokens, ended| ScoredHypothesis {
            ended,
            ..self.unscored(tokens)
        };
        if prefix.is_empty() {
            let found = self.translate_tokens(&[source])?.pop();
            return Ok(found.map(|it| unscored(it.tokens, it.ended)));
        }
        // Greedy search is a beam search of width one.
        let search = SearchConfig::new().with_max_len(max_len);
        let found = self.n_best_after(&[source], &search, prefix, stop)?;
        let found = found.into_iter().flatten().next();
        Ok(found.map(|it| unscored(it.tokens, it.ended)))
    }

    /// The attention weights of an output; `None` for an ensemble.
    fn attention_of(
        &self,
        source: &[String],
        output: &ScoredHypothesis,
    ) -> Result<Option<AttentionOfHeads>> {
        if self.is_ensemble() {
            return Ok(None);
        }
        let (member, _, batch) = self.attending(source, output.tokens.len() + 1)?;
        let tokens = self.vocabs.target.try_encode(&output.tokens)?;
        let [layers, heads] = member.model.heads();
        let ended = output.ended;
        let weights = member.model.weights_of_heads(&batch, &tokens, ended)?;
        Ok(Some(AttentionOfHeads {
            layers,
            heads,
            weights,
        }))
    }
}
