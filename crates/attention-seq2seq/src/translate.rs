//! A trained model at work.

use std::path::Path;

use attention_core::{AdditiveScore, DotProductScore};
use burn::module::Module;
use burn::tensor::Device;

use crate::batch::Source;
use crate::data::{Pair, group_by_source};
use crate::error::{Error, Result};
use crate::metrics::TokenErrors;
use crate::model::{ModelScore, Seq2Seq};
use crate::run::{AttentionKind, RunConfig, RunDir};
use crate::train::Trainee;
use crate::vocab::Vocab;

/// The number of sources translated at once.
const BATCH_SIZE: usize = 256;

/// One output and what each of its tokens attended to.
#[derive(Clone, Debug)]
pub struct Attended {
    /// The source tokens: the keys.
    pub source: Vec<String>,
    /// The target tokens, the end included: the queries.
    pub target: Vec<String>,
    /// The attention weights, `[target tokens, source tokens]`, row by row.
    pub weights: Vec<f32>,
}

/// A trained model with its vocabularies.
pub struct Translator {
    model: Box<dyn Generate>,
    config: RunConfig,
    source: Vocab,
    target: Vocab,
    device: Device,
}

/// What a model does, whatever its scoring function.
trait Generate {
    fn tokens(&self, source: &Source, max_len: usize) -> Vec<Vec<u32>>;
    /// The tokens of a single source and its weights, row by row.
    fn tokens_and_weights(&self, source: &Source, max_len: usize) -> (Vec<u32>, Vec<f32>);
}

impl<S: ModelScore> Generate for Seq2Seq<S> {
    fn tokens(&self, source: &Source, max_len: usize) -> Vec<Vec<u32>> {
        self.greedy(source, max_len, false).tokens
    }

    fn tokens_and_weights(&self, source: &Source, max_len: usize) -> (Vec<u32>, Vec<f32>) {
        let mut translation = self.greedy(source, max_len, true);
        let weights = translation.weights.into_iter().flat_map(|weights| {
            weights.try_into_vec_as::<f32>().expect("weights are floats")
        });
        (translation.tokens.swap_remove(0), weights.collect())
    }
}

impl Translator {
    /// The model in `run`: the one that training left, or else the newest checkpoint.
    ///
    /// # Errors
    /// If there is none, or it does not fit its settings.
    pub fn load(run: &RunDir, device: &Device) -> Result<Self> {
        let file = run.model_file();
        if file.exists() {
            return Self::from_file(run, &file, device);
        }
        match run.checkpoints().last() {
            Some(&epoch) => Self::from_checkpoint(run, epoch, device),
            None => {
                run.load_config()?;
                Err(Error::Checkpoint {
                    path: run.path().to_path_buf(),
                    reason: "its training was stopped before the first checkpoint; train again with --resume"
                        .to_string(),
                })
            }
        }
    }

    /// The model of one epoch's checkpoint.
    ///
    /// # Errors
    /// If it is not there, or does not fit its settings.
    pub fn from_checkpoint(run: &RunDir, epoch: usize, device: &Device) -> Result<Self> {
        Self::from_file(run, &run.checkpoint_file("model", epoch), device)
    }

    /// All models are saved as they are trained, so that a checkpoint is a model.
    fn from_file(run: &RunDir, file: &Path, device: &Device) -> Result<Self> {
        let config = run.load_config()?;
        let (source, target) = run.load_vocabs(&config.model)?;
        let model = match config.attention {
            AttentionKind::Additive => load::<AdditiveScore>(&config, file, device)?,
            AttentionKind::Dot => load::<DotProductScore>(&config, file, device)?,
        };
        Ok(Self {
            model,
            config,
            source,
            target,
            device: device.clone(),
        })
    }

    /// The settings the model was trained with.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Splits a text into source tokens that the model knows.
    ///
    /// # Errors
    /// If the text has no token, or one that the model has never seen.
    pub fn source_tokens(&self, text: &str) -> Result<Vec<String>> {
        let (tokens, _) = self.config.data.tokens();
        let tokens = tokens.split(text);
        if tokens.is_empty() {
            let what = "the text to translate is empty".to_string();
            return Err(Error::EmptyData { what });
        }
        self.source.try_encode(&tokens)?;
        Ok(tokens)
    }

    /// Joins target tokens to a text.
    pub fn target_text(&self, tokens: &[String]) -> String {
        self.config.data.tokens().1.join(tokens)
    }

    /// The most likely target tokens of each source. Unknown tokens are read as such.
    pub fn translate(&self, sources: &[&[String]]) -> Vec<Vec<String>> {
        let encoded: Vec<Vec<u32>> = sources.iter().map(|source| self.source.encode(source)).collect();
        // Sources of similar length together, then back in order.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&index| encoded[index].len());
        let mut outputs = vec![Vec::new(); encoded.len()];
        for indices in order.chunks(BATCH_SIZE) {
            let sources = indices.iter().map(|&index| encoded[index].as_slice());
            let source = Source::new(sources, &self.device);
            let tokens = self.model.tokens(&source, self.config.max_len);
            for (&index, tokens) in indices.iter().zip(&tokens) {
                outputs[index] = self.target.decode(tokens);
            }
        }
        outputs
    }

    /// The most likely target tokens of one source, and what each attended to.
    pub fn attend(&self, source: &[String]) -> Attended {
        let encoded = self.source.encode(source);
        let batch = Source::new([encoded.as_slice()], &self.device);
        let (tokens, weights) = self.model.tokens_and_weights(&batch, self.config.max_len);
        let mut target = self.target.decode(&tokens);
        // The step that said "end" has weights too, unless the output was cut off.
        if weights.len() > target.len() * source.len() {
            target.push("<eos>".to_string());
        }
        Attended {
            source: source.to_vec(),
            target,
            weights,
        }
    }

    /// The errors on `pairs`; several targets of one source all count as right.
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
}

fn load<S: ModelScore + 'static>(
    config: &RunConfig,
    file: &Path,
    device: &Device,
) -> Result<Box<dyn Generate>> {
    let trainee = Trainee::new(config.model.init::<S>(device), config.max_len);
    let trainee = trainee.try_load_file(file).map_err(|error| Error::Checkpoint {
        path: file.to_path_buf(),
        reason: error.to_string().replace('\n', " "),
    })?;
    Ok(Box::new(trainee.model.valid()))
}
