//! Metrics of a model on pairs with known targets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::data::corpus::Corpus;
use crate::data::{Pair, SourceGroup, group_by_source};
use crate::error::Result;
use crate::metrics::{
    AlignedStep, Bleu, Bootstrap, ChrF, Closest, Interval, TokenErrors, aligned_steps, d2l_bleu,
};
use crate::text::unknown::{Distinct, UnknownTokens};
use crate::translate::{Hypothesis, TokenScores, Translator};

/// How a model is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationConfig {
    /// The number of wrong outputs to keep: those with the most edits.
    pub worst: usize,
    /// How source tokens that the model has not learned are read. A target with such a token is always wrong.
    pub unknown: UnknownTokens,
    /// Whether [`SourceErrors`] include the probabilities of outputs, for which each output is decoded once more.
    pub with_probabilities: bool,
}

impl Default for EvaluationConfig {
    /// Keeps no outputs, reads unknown tokens as [`Vocab::UNK`](crate::Vocab::UNK), and computes no probabilities.
    fn default() -> Self {
        Self {
            worst: 0,
            unknown: UnknownTokens::Unk,
            with_probabilities: false,
        }
    }
}

/// The errors of the output of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceErrors {
    /// The edits between the output and the closest reference: 0 if it is right.
    pub edits: usize,
    /// The log-probability of the output, if requested and if the output is the model's: the output for a source
    /// without known tokens is not.
    pub log_probability: Option<f64>,
}

/// The sums over outputs from which all metrics are computed; for one output, its terms of the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvaluationSums {
    /// The errors of tokens and sequences.
    pub errors: TokenErrors,
    /// BLEU of the texts.
    pub bleu: Bleu,
    /// chrF of the texts.
    pub chrf: ChrF,
    d2l_bleu: f64,
}

impl EvaluationSums {
    /// The sums for one output, which is right if it equals any of the references.
    fn of(translator: &Translator, output: &Hypothesis, references: &[&[String]]) -> Self {
        let mut errors = TokenErrors::new();
        errors.add(&output.tokens, references);
        if !output.ended {
            errors.add_cut_off();
        }
        let references = references.iter();
        let texts = references.clone().map(|it| translator.target_text(it));
        let texts: Vec<String> = texts.collect();
        let of_d2l = references.map(|it| d2l_bleu(&output.tokens, it, Self::D2L_ORDER));
        Self {
            errors,
            bleu: Bleu::of_texts(&output.text, &texts),
            chrf: ChrF::of_texts(&output.text, &texts),
            d2l_bleu: of_d2l.fold(0.0, f64::max),
        }
    }

    /// The largest number of tokens of an n-gram in [`d2l_bleu`](Self::d2l_bleu), as in D2L.
    const D2L_ORDER: usize = 2;

    /// The mean over outputs of [`d2l_bleu`] with n-grams of up to two tokens, with the best of several references.
    pub fn d2l_bleu(&self) -> f64 {
        self.d2l_bleu / self.errors.sequences() as f64
    }
}

impl AddAssign for EvaluationSums {
    fn add_assign(&mut self, other: Self) {
        self.errors += other.errors;
        self.bleu += other.bleu;
        self.chrf += other.chrf;
        self.d2l_bleu += other.d2l_bleu;
    }
}

/// The confidence intervals of an [`Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvaluationIntervals {
    /// The interval of [`TokenErrors::sequence_error_rate`].
    pub sequence_error_rate: Interval,
    /// The interval of [`TokenErrors::token_error_rate`].
    pub token_error_rate: Interval,
    /// The interval of [`Bleu::score`].
    pub bleu: Interval,
    /// The interval of [`ChrF::score`].
    pub chrf: Interval,
}

/// An output that equals none of its references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongOutput {
    /// The source, as a text.
    pub source: String,
    /// The output, as a text.
    pub output_text: String,
    /// The tokens of the output.
    pub output: Vec<String>,
    /// Whether the output was cut off at [`Translator::max_len`].
    pub is_cut_off: bool,
    /// The closest reference, as a text.
    pub reference_text: String,
    /// The tokens of this reference.
    pub reference: Vec<String>,
    /// The smallest number of insertions, deletions and substitutions between output and reference.
    pub edits: usize,
}

impl WrongOutput {
    /// The alignment of the output to its reference, as [`align`](crate::metrics::align) finds it.
    pub fn alignment(&self) -> Vec<AlignedStep> {
        aligned_steps(&self.output, &self.reference)
    }
}

/// The metrics of a model on pairs: error rates, BLEU, chrF, and the worst outputs.
///
/// ```no_run
/// use attention_seq2seq::{Evaluation, RunDir, Translator};
/// use attention_seq2seq::data::Corpus;
/// use attention_seq2seq::evaluation::EvaluationConfig;
/// use attention_seq2seq::metrics::Bootstrap;
/// use burn::tensor::Device;
///
/// let translator = Translator::load(&RunDir::new("runs/words"), &Device::flex())?;
/// let config = translator.config();
/// let corpus = config.data.corpus(config.train.seed)?;
/// let worst = EvaluationConfig { worst: 10, ..EvaluationConfig::default() };
/// let evaluation = Evaluation::new(&translator, &corpus, &worst)?;
/// let errors = evaluation.sums().errors;
/// let interval = evaluation.intervals(&Bootstrap::default()).sequence_error_rate;
/// println!("{} ({} to {})", errors.sequence_error_rate(), interval.lower, interval.upper);
/// for wrong in evaluation.worst() {
///     println!("{}: {} for {}", wrong.source, wrong.output_text, wrong.reference_text);
/// }
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    outputs: Vec<EvaluationSums>,
    sources: Vec<SourceErrors>,
    worst: BTreeMap<Place, WrongOutput>,
    unknown: Distinct,
    unknown_targets: Distinct,
    out_of_reach: usize,
    spaces: Spaces,
}

/// The order of wrong outputs: by edits, most first, then by the place of the source among all.
type Place = (Reverse<usize>, usize);

/// The numbers of sources, of sources with a space, and of sources with a target with a space.
#[derive(Clone, Copy, Debug, Default)]
struct Spaces {
    all: usize,
    sources: usize,
    targets: usize,
}

impl Evaluation {
    /// Translates the sources of the validation pairs, and compares each output with the targets of its source, any of
    /// which is right.
    ///
    /// # Errors
    /// [`Error::UnknownToken`](crate::Error::UnknownToken) for a source token that the model has not learned, if such
    /// tokens are to be an error; with probabilities, [`Error::NoProbabilities`](crate::Error::NoProbabilities) if
    /// logits are NaN or infinite.
    pub fn new(
        translator: &Translator,
        corpus: &Corpus,
        config: &EvaluationConfig,
    ) -> Result<Self> {
        let mut evaluation = Self::default();
        for pairs in corpus.valid_chunks() {
            evaluation.add(translator, &pairs, config)?;
        }
        Ok(evaluation)
    }

    /// Adds pairs, with the pairs of one source together.
    fn add(
        &mut self,
        translator: &Translator,
        pairs: &[Pair],
        config: &EvaluationConfig,
    ) -> Result<()> {
        let groups = group_by_source(pairs);
        let mut sources = Vec::with_capacity(groups.len());
        let vocabs = translator.vocabs();
        for group in &groups {
            let targets = group.targets.iter();
            let unknown = targets.map(|target| vocabs.target.unknown(target));
            let unknown: Vec<Vec<&str>> = unknown.collect();
            self.out_of_reach += usize::from(unknown.iter().all(|of_target| !of_target.is_empty()));
            self.unknown_targets.extend(unknown.concat());
            let read = vocabs.source.read(group.source.to_vec(), config.unknown)?;
            self.unknown.extend(read.unknown.iter().map(String::as_str));
            sources.push(read.tokens);
        }
        let errors = self.spaces.all + groups.len();
        self.sources.resize(errors, SourceErrors::default());
        // Sources of similar length are translated together, and memory holds the outputs of only one batch.
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|&index| sources[index].len());
        let is_empty = |&index: &usize| sources[index].is_empty();
        let (empty, order): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_empty);
        for index in empty {
            let nothing = translator.hypothesis(&[], true);
            self.add_output(translator, &groups[index], index, (nothing, None), config);
        }
        for batch in order.chunks(translator.batch_size()) {
            let batch_sources: Vec<&[String]> =
                batch.iter().map(|&index| &sources[index][..]).collect();
            let outputs = translator.translate_tokens(&batch_sources)?;
            let probabilities = match config.with_probabilities {
                true => log_probabilities(translator, &batch_sources, &outputs)?,
                false => vec![None; outputs.len()],
            };
            let outputs = outputs.into_iter().zip(probabilities);
            for (&index, output) in batch.iter().zip(outputs) {
                self.add_output(translator, &groups[index], index, output, config);
            }
        }
        self.spaces.all += groups.len();
        Ok(())
    }

    /// Adds the output for the source at `index` of the current ones, with its log-probability if requested.
    fn add_output(
        &mut self,
        translator: &Translator,
        group: &SourceGroup<'_>,
        index: usize,
        (output, log_probability): (Hypothesis, Option<f64>),
        config: &EvaluationConfig,
    ) {
        let sums = EvaluationSums::of(translator, &output, &group.targets);
        self.outputs.push(sums);
        let source = translator.source_text(group.source);
        let has_space = |tokens: &&[String]| translator.target_text(tokens).contains(' ');
        self.spaces.sources += usize::from(source.contains(' '));
        self.spaces.targets += usize::from(group.targets.iter().any(has_space));
        let edits = sums.errors.edits();
        self.sources[self.spaces.all + index] = SourceErrors {
            edits,
            log_probability,
        };
        if edits == 0 {
            return;
        }
        let reference = Closest::of(&output.tokens, &group.targets).reference;
        let wrong = WrongOutput {
            source,
            output_text: output.text,
            output: output.tokens,
            is_cut_off: !output.ended,
            reference_text: translator.target_text(reference),
            reference: reference.to_vec(),
            edits,
        };
        let place = (Reverse(edits), self.spaces.all + index);
        self.worst.insert(place, wrong);
        if self.worst.len() > config.worst {
            self.worst.pop_last();
        }
    }

    /// The sums over all outputs.
    pub fn sums(&self) -> EvaluationSums {
        let mut sums = EvaluationSums::default();
        for output in &self.outputs {
            sums += *output;
        }
        sums
    }

    /// Confidence intervals of the metrics.
    ///
    /// # Panics
    /// As [`Bootstrap::intervals`].
    pub fn intervals(&self, bootstrap: &Bootstrap) -> EvaluationIntervals {
        let figures = |sums: &EvaluationSums| {
            [
                sums.errors.sequence_error_rate(),
                sums.errors.token_error_rate(),
                sums.bleu.score(),
                sums.chrf.score(),
            ]
        };
        let [sequence_error_rate, token_error_rate, bleu, chrf] =
            bootstrap.intervals(&self.outputs, figures);
        EvaluationIntervals {
            sequence_error_rate,
            token_error_rate,
            bleu,
            chrf,
        }
    }

    /// The wrong outputs with the most edits, most first; for equal numbers, earlier sources first.
    pub fn worst(&self) -> impl Iterator<Item = &WrongOutput> {
        self.worst.values()
    }

    /// The errors of each source, in the order of the sources' first validation pairs, as in [`Corpus::valid_chunks`].
    pub fn sources(&self) -> &[SourceErrors] {
        &self.sources
    }

    /// The source tokens that the model has not learned, each once.
    pub fn unknown(&self) -> &[String] {
        self.unknown.tokens()
    }

    /// The target tokens that the model has not learned, each once; no output can have them.
    pub fn unknown_targets(&self) -> &[String] {
        self.unknown_targets.tokens()
    }

    /// The number of sources all of whose targets have such a token, so that their outputs are always wrong.
    pub fn out_of_reach(&self) -> usize {
        self.out_of_reach
    }

    /// Whether sources and targets are sentences, for which BLEU and chrF are meaningful: at least half of the texts of
    /// either side have a space. Words and pronunciations are not sentences, nor are dates.
    pub fn is_of_sentences(&self) -> bool {
        let spaces = &self.spaces;
        let fewest = spaces.sources.min(spaces.targets);
        spaces.all > 0 && 2 * fewest >= spaces.all
    }
}

/// The log-probability of each output of greedy search; an output that was cut off has no end token.
fn log_probabilities(
    translator: &Translator,
    sources: &[&[String]],
    outputs: &[Hypothesis],
) -> Result<Vec<Option<f64>>> {
    let pairs = sources.iter().zip(outputs);
    let pairs = pairs.map(|(source, output)| (*source, &output.tokens[..]));
    let pairs: Vec<_> = pairs.collect();
    let scores = translator.score_all(&pairs)?.into_iter().zip(outputs);
    let of_output = |(scores, output): (TokenScores, &Hypothesis)| {
        let steps = output.tokens.len() + usize::from(output.ended);
        Some(scores.tokens[..steps].iter().sum())
    };
    Ok(scores.map(of_output).collect())
}
