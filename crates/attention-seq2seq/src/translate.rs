//! Texts and tokens translated by a trained model.

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device};

use crate::attention::AnyAttention;
use crate::batch::Source;
use crate::corpus::Corpus;
use crate::data::{Pair, group_by_source};
use crate::error::{Error, Result};
use crate::metrics::TokenErrors;
use crate::model::Seq2Seq;
use crate::run::{Manifest, RunConfig, RunDir};
use crate::train::Trainee;
use crate::vocabs::Vocabs;

/// The number of sources translated at once.
const BATCH_SIZE: usize = 256;

/// A translation, with the attention weights of each of its tokens.
#[derive(Clone, Debug)]
pub struct Attended {
    /// The source tokens, the keys.
    pub source: Vec<String>,
    /// The target tokens, the end included: one for each query.
    pub target: Vec<String>,
    /// The translation: the target tokens without special ones.
    pub output: Vec<String>,
    /// The attention weights, `[target tokens, source tokens]`, row by row.
    pub weights: Vec<f32>,
}

/// A trained model with its vocabularies. The example of the crate trains one.
///
/// ```no_run
/// use attention_seq2seq::{RunDir, Translator};
/// use burn::tensor::Device;
///
/// let translator = Translator::load(&RunDir::new("runs/dates"), &Device::flex())?;
/// for text in translator.translate_texts(&["5 novembre 1994", "05.11.'94"])? {
///     println!("{text}");
/// }
///
/// // Which characters of the source was each character of the output predicted from?
/// let attended = translator.attend(&translator.source_tokens("5 novembre 1994")?);
/// for (token, weights) in attended.target.iter().zip(attended.weights.chunks(attended.source.len())) {
///     println!("{token} {weights:.2?}");
/// }
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
pub struct Translator {
    model: Seq2Seq<AnyAttention>,
    config: RunConfig,
    vocabs: Vocabs,
    epoch: usize,
    is_chosen: bool,
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

    /// Splits a text into source tokens that the model knows. As in a file of pairs, white space around it and a byte
    /// order mark are no part of it.
    ///
    /// # Errors
    /// [`Error::Config`] if the text has no token, [`Error::UnknownToken`] if it has one that is not in the vocabulary.
    pub fn source_tokens(&self, text: &str) -> Result<Vec<String>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        let tokens = self.config.data.source_tokens().split(text);
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
    pub fn translate_texts(&self, texts: &[impl AsRef<str>]) -> Result<Vec<String>> {
        let sources: Vec<Vec<String>> = texts
            .iter()
            .map(|text| self.source_tokens(text.as_ref()))
            .collect::<Result<_>>()?;
        let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
        let outputs = self.translate(&sources);
        Ok(outputs.iter().map(|it| self.target_text(it)).collect())
    }

    /// The most likely target tokens of each source, by greedy search. Tokens that are not in the vocabulary are read
    /// as [`Vocab::UNK`](crate::Vocab::UNK).
    pub fn translate(&self, sources: &[&[String]]) -> Vec<Vec<String>> {
        let encoded: Vec<Vec<u32>> = sources
            .iter()
            .map(|source| self.vocabs.source.encode(source))
            .collect();
        // Sources of similar length together, then back in order.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&index| encoded[index].len());
        let mut outputs = vec![Vec::new(); encoded.len()];
        for indices in order.chunks(BATCH_SIZE) {
            let sources = indices.iter().map(|&index| encoded[index].as_slice());
            let source = Source::new(sources, &self.device);
            let translation = self.model.greedy(&source, self.config.max_len, false);
            for (&index, tokens) in indices.iter().zip(&translation.tokens) {
                outputs[index] = self.vocabs.target.decode(tokens);
            }
        }
        outputs
    }

    /// The most likely target tokens of one source, with the attention weights of each.
    pub fn attend(&self, source: &[String]) -> Attended {
        let encoded = self.vocabs.source.encode(source);
        let batch = Source::new([encoded.as_slice()], &self.device);
        let translation = self.model.greedy(&batch, self.config.max_len, true);
        let tokens = &translation.tokens[0];
        let weights = translation.weights.into_iter();
        let weights: Vec<f32> = weights
            .flat_map(|row| row.try_into_vec_as::<f32>().expect("weights are floats"))
            .collect();
        // Special tokens keep their names: the padding token, of a model that has learned little, has weights too.
        let name = |&id: &u32| self.vocabs.target.token(id).unwrap_or_default().to_string();
        let mut target: Vec<String> = tokens.iter().map(name).collect();
        // The step that predicted the end has weights too, unless the output was cut off.
        if weights.len() > target.len() * source.len() {
            target.push("<eos>".to_string());
        }
        Attended {
            source: source.to_vec(),
            target,
            output: self.vocabs.target.decode(tokens),
            weights,
        }
    }

    /// The errors of the translations of `pairs`; of several targets of one source any is right.
    pub fn errors(&self, pairs: &[Pair]) -> TokenErrors {
        let groups = group_by_source(pairs);
        let sources: Vec<&[String]> = groups.iter().map(|group| group.source).collect();
        let outputs = self.translate(&sources);
        let mut errors = TokenErrors::new();
        for (output, group) in outputs.iter().zip(&groups) {
            errors.add(output, &group.targets);
        }
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
