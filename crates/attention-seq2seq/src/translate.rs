//! Texts and tokens translated by a trained model.

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device};

use crate::batch::Source;
use crate::corpus::Corpus;
use crate::data::{Pair, group_by_source};
use crate::error::{Error, Result};
use crate::memory;
use crate::metrics::TokenErrors;
use crate::model::{AnyModel, AttentionHead, Seq2SeqModel};
use crate::run::{Manifest, RunConfig, RunDir, check_max_len};
use crate::tokens::trim;
use crate::train::Trainee;
use crate::vocabs::Vocabs;

/// The number of sources translated at once, where outputs are short.
const BATCH_SIZE: usize = 256;

/// The most tokens of a batch of outputs: half a gigabyte, with the string of each.
const BATCH_TOKENS: usize = 1 << 23;

/// The name of the end of a text beside tokens.
const END: &str = "<eos>";

/// The bytes of a token of an output: its id, its string, and its share of the text.
const BYTES_OF_TOKEN: f64 = 64.0;

/// The translation of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hypothesis {
    /// The target tokens, without special ones.
    pub tokens: Vec<String>,
    /// The tokens, joined to a text.
    pub text: String,
    /// Whether the model ended the output. If not, it was cut off at [`Translator::max_len`] tokens, and
    /// [`Translator::with_max_len`] allows more.
    pub ended: bool,
}

/// A translation, with the attention weights of each of its tokens.
#[derive(Clone, Debug)]
pub struct Attended {
    /// The source tokens, and `<eos>` where the model attends to the end of a source, as a Transformer does: one for
    /// each key.
    pub source: Vec<String>,
    /// The target tokens, and `<eos>` if the output ended: one for each query.
    pub target: Vec<String>,
    /// The translation.
    pub output: Hypothesis,
    /// The attention weights, `[queries, keys]`, row by row.
    pub weights: Vec<f32>,
}

/// A trained model with its vocabularies. The example of the crate trains one.
///
/// ```no_run
/// use attention_seq2seq::{RunDir, Translator};
/// use burn::tensor::Device;
///
/// let translator = Translator::load(&RunDir::new("runs/dates"), &Device::flex())?;
/// for output in translator.translate_texts(&["5 novembre 1994", "05.11.'94"])? {
///     println!("{}{}", output.text, if output.ended { "" } else { " .." });
/// }
///
/// // Which characters of the source was each character of the output predicted from?
/// let attended = translator.attend(&translator.source_tokens("5 novembre 1994")?)?;
/// for (token, weights) in attended.target.iter().zip(attended.weights.chunks(attended.source.len())) {
///     println!("{token} {weights:.2?}");
/// }
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
pub struct Translator {
    model: AnyModel,
    config: RunConfig,
    vocabs: Vocabs,
    epoch: usize,
    is_chosen: bool,
    max_len: usize,
    device: Device,
}

impl Translator {
    /// Loads the model in `run`: the checkpoint that [`keep_best`](Self::keep_best) chose, or else the newest.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is none, it does not fit its settings or was changed; [`Error::Json`] or
    /// [`Error::Io`] if a file of the run cannot be read.
    pub fn load(run: &RunDir, device: &Device) -> Result<Self> {
        let manifest = run.manifest()?;
        match run.model_of(&manifest) {
            Some(epoch) => Self::of_epoch(run, &manifest, epoch, device),
            None => {
                let reason = "its training was stopped before the first checkpoint; train again with --resume";
                Err(Error::unusable(run.path(), reason))
            }
        }
    }

    /// Makes the checkpoint with the best translations of `pairs` the model of `run`, and returns its epoch; `None` if
    /// there is no checkpoint.
    ///
    /// The best has the highest exact match, then the lowest token error rate; of equals, the newest counts.
    ///
    /// # Errors
    /// As [`load`](Self::load), for each checkpoint; [`Error::Io`] if the choice cannot be written.
    pub fn keep_best(run: &RunDir, pairs: &[Pair], device: &Device) -> Result<Option<usize>> {
        let mut best = None;
        let manifest = run.manifest()?;
        for epoch in run.checkpoints_of(&manifest) {
            let errors = Self::of_epoch(run, &manifest, epoch, device)?.errors(pairs);
            let quality = (errors.exact_match(), -errors.token_error_rate());
            if best.is_none_or(|(known, _)| quality >= known) {
                best = Some((quality, epoch));
            }
        }
        let best = best.map(|(_, epoch)| epoch);
        if let Some(epoch) = best {
            run.choose_model(epoch)?;
        }
        Ok(best)
    }

    /// Loads the model after one epoch.
    fn of_epoch(run: &RunDir, manifest: &Manifest, epoch: usize, device: &Device) -> Result<Self> {
        let config = run.config_of(manifest)?;
        let vocabs = run.vocabs_of(manifest, &config.model)?;
        let bytes = Bytes::from_bytes_vec(run.read_model(manifest, epoch)?);
        let trainee = Trainee::new(config.init_model(device));
        let trainee = ModuleRecord::from_bytes(bytes)
            .and_then(|record| trainee.try_load_record(record))
            .map_err(|error| Error::unusable(&run.file_of_model(epoch), error))?;
        Ok(Self {
            model: trainee.model.valid(),
            max_len: config.max_len,
            config,
            vocabs,
            epoch,
            is_chosen: manifest.model == Some(epoch),
            device: device.clone(),
        })
    }

    /// The epoch of the model.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// Whether the model is the best of a training that ended, as [`keep_best`](Self::keep_best) chose it; else it is
    /// the newest of one that goes on, or was killed.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// The settings that the model was trained with.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The model.
    pub fn model(&self) -> &AnyModel {
        &self.model
    }

    /// The vocabularies of source and target.
    pub fn vocabs(&self) -> &Vocabs {
        &self.vocabs
    }

    /// The number of tokens after which an output is cut off: that of the settings, if no other was set.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Sets the number of tokens after which an output is cut off. By default the settings have that of the longest
    /// target that the model learned, a quarter more, and two: longer sources may need more.
    ///
    /// # Errors
    /// [`Error::Config`] if it is 0 or more than 1,000,000, or outputs of so many tokens do not fit into the memory
    /// that is free.
    pub fn with_max_len(self, max_len: usize) -> Result<Self> {
        check_max_len(max_len)?;
        let translator = Self { max_len, ..self };
        let tokens = translator.batch_size() * max_len;
        memory::check("the memory of outputs", BYTES_OF_TOKEN * tokens as f64)?;
        Ok(translator)
    }

    /// Whether a text has nothing to translate: as in a file of pairs, spaces, tabs and line ends around it are no part
    /// of it.
    pub fn is_blank(&self, text: &str) -> bool {
        trim(text).is_empty()
    }

    /// Splits a text into source tokens that the model knows. As in a file of pairs, spaces, tabs and line ends around
    /// it are no part of it. A byte order mark is: it belongs to a file, and who reads the file takes it away.
    ///
    /// # Errors
    /// [`Error::Config`] if the text has no token, [`Error::UnknownToken`] if it has one that is not in the vocabulary.
    pub fn source_tokens(&self, text: &str) -> Result<Vec<String>> {
        let tokens = self.config.data.source_tokens().split(trim(text));
        if tokens.is_empty() {
            let (what, expected) = ("the text to translate", "at least one token");
            return Err(Error::config(what, expected, "none"));
        }
        self.vocabs.source.try_encode(&tokens)?;
        Ok(tokens)
    }

    /// Joins source tokens to a text.
    pub fn source_text(&self, tokens: &[String]) -> String {
        self.config.data.source_tokens().join(tokens)
    }

    /// Joins target tokens to a text.
    pub fn target_text(&self, tokens: &[String]) -> String {
        self.config.data.target_tokens().join(tokens)
    }

    /// Translates texts.
    ///
    /// # Errors
    /// Those of [`source_tokens`](Self::source_tokens), for the first text that has one.
    pub fn translate_texts(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Hypothesis>> {
        let sources: Vec<Vec<String>> = texts
            .iter()
            .map(|text| self.source_tokens(text.as_ref()))
            .collect::<Result<_>>()?;
        let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
        Ok(self.translate(&sources))
    }

    /// The most likely target tokens of each source, by greedy search. Tokens that are not in the vocabulary are read
    /// as [`Vocab::UNK`](crate::Vocab::UNK); an output has no such token.
    pub fn translate(&self, sources: &[&[String]]) -> Vec<Hypothesis> {
        let mut outputs = vec![None; sources.len()];
        self.for_each_translation(sources, |index, output| outputs[index] = Some(output));
        outputs.into_iter().flatten().collect()
    }

    /// The number of sources that are translated at once: fewer where [`max_len`](Self::max_len) is large, so that
    /// their outputs fit into memory.
    pub fn batch_size(&self) -> usize {
        (BATCH_TOKENS / self.max_len.max(1)).clamp(1, BATCH_SIZE)
    }

    /// Hands the translation of each source to `take`, with the source's index. They come batch by batch, in an order
    /// of their own: only those of one batch are in memory.
    fn for_each_translation(&self, sources: &[&[String]], mut take: impl FnMut(usize, Hypothesis)) {
        let encoded: Vec<Vec<u32>> = sources
            .iter()
            .map(|source| self.vocabs.source.encode(source))
            .collect();
        // Sources of similar length together.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&index| encoded[index].len());
        for indices in order.chunks(self.batch_size()) {
            let sources = indices.iter().map(|&index| encoded[index].as_slice());
            let source = Source::new(sources, &self.device);
            let translation = self.model.greedy(&source, self.max_len, false);
            let outputs = translation.tokens.iter().zip(translation.ended);
            for (&index, (tokens, ended)) in indices.iter().zip(outputs) {
                take(index, self.hypothesis(tokens, ended));
            }
        }
    }

    fn hypothesis(&self, tokens: &[u32], ended: bool) -> Hypothesis {
        let tokens = self.vocabs.target.decode(tokens);
        Hypothesis {
            text: self.target_text(&tokens),
            tokens,
            ended,
        }
    }

    /// The most likely target tokens of one source, with the attention weights of each.
    ///
    /// # Errors
    /// [`Error::Config`] if the weights of an output of [`max_len`](Self::max_len) tokens do not fit into the memory
    /// that is free.
    pub fn attend(&self, source: &[String]) -> Result<Attended> {
        self.attend_with(source, AttentionHead::default())
    }

    /// As [`attend`](Self::attend), with the weights of one head, where the model is a Transformer.
    ///
    /// # Errors
    /// As [`attend`](Self::attend); [`Error::Config`] if the model has no such layer or head.
    pub fn attend_with(&self, source: &[String], head: AttentionHead) -> Result<Attended> {
        let mut keys = source.to_vec();
        if self.model.attends_to_end() {
            keys.push(END.to_string());
        }
        memory::check(
            "the memory of the attention weights",
            self.model.bytes_of_weights(keys.len()) * self.max_len as f64,
        )?;
        let encoded = self.vocabs.source.encode(source);
        let batch = Source::new([encoded.as_slice()], &self.device);
        let translation = self.model.greedy_with_weights(&batch, self.max_len, head)?;
        let weights = translation.weights.into_iter();
        let weights: Vec<f32> = weights
            .flat_map(|row| row.try_into_vec_as::<f32>().expect("weights are floats"))
            .collect();
        let output = self.hypothesis(&translation.tokens[0], translation.ended[0]);
        let mut target = output.tokens.clone();
        // The step that predicted the end has weights, too.
        if output.ended {
            target.push(END.to_string());
        }
        Ok(Attended {
            source: keys,
            target,
            output,
            weights,
        })
    }

    /// The errors of the translations of `pairs`; of several targets of one source any is right.
    pub fn errors(&self, pairs: &[Pair]) -> TokenErrors {
        let groups = group_by_source(pairs);
        let sources: Vec<&[String]> = groups.iter().map(|group| group.source).collect();
        let mut errors = TokenErrors::new();
        self.for_each_translation(&sources, |index, output| {
            errors.add(&output.tokens, &groups[index].targets);
            if !output.ended {
                errors.add_cut_off();
            }
        });
        errors
    }

    /// The [`errors`](Self::errors) of the pairs to validate on, which need not be in memory as tokens all at once.
    pub fn valid_errors(&self, corpus: &Corpus) -> TokenErrors {
        let mut errors = TokenErrors::new();
        for pairs in corpus.valid_chunks() {
            errors.merge(self.errors(&pairs));
        }
        errors
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
