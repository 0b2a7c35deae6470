//! The models: each trained for a minute, so that outputs end where pronunciations do.

use std::fs;
use std::path::PathBuf;

use attention_seq2seq::data::PairFileOptions;
use attention_seq2seq::model::{ModelConfig, ModelKind};
use attention_seq2seq::{
    AttentionKind, DataSource, Interrupter, Pair, Result, RunConfig, RunDir, Seq2SeqConfig,
    Tokenization, Trainee, Training, TransformerConfig, Translator, Vocabs,
};
use attention_tests::parameters;
use burn::module::Module;
use burn::tensor::Device;
use burn_fused_layers::recurrent::CellKind;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::lexicon;

/// The feature dimension of embeddings and states.
const SIZE: usize = 256;
const LAYERS: usize = 2;
const EPOCHS: usize = 4;
const TRAIN: usize = 8_000;
const VALID: usize = 200;

/// The heads of an attention of the Transformer.
pub(crate) const HEADS: usize = 4;

/// The sizes of a model, for the title of the work.
pub(crate) fn title(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Rnn => {
            "two layers of LSTMs, the encoder's in both directions, hidden 256, additive attention"
        }
        ModelKind::Transformer => {
            "a Transformer of two layers each, hidden 256, 4 heads, feed-forward 1024"
        }
    }
}

/// The settings of a model for vocabularies of these sizes, and its attention.
fn settings(kind: ModelKind, [source, target]: [usize; 2]) -> (ModelConfig, AttentionKind) {
    match kind {
        ModelKind::Rnn => {
            let model = Seq2SeqConfig::new(source, target)
                .with_embedding_size(SIZE)
                .with_hidden_size(SIZE)
                .with_layers(LAYERS)
                .with_cell(CellKind::Lstm);
            (model.into(), AttentionKind::Additive)
        }
        ModelKind::Transformer => {
            let model = TransformerConfig::new(source, target)
                .with_hidden_size(SIZE)
                .with_heads(HEADS)
                .with_layers(LAYERS)
                .with_feed_forward_size(4 * SIZE);
            (model.into(), AttentionKind::Dot)
        }
    }
}

/// A trained model in a folder of its own.
pub(crate) struct Trained {
    folder: TempDir,
    config: RunConfig,
    vocabs: Vocabs,
    device: Device,
}

impl Trained {
    /// Trains on words that are not those to decode.
    pub(crate) fn new(kind: ModelKind, device: &Device) -> Result<Self> {
        let pairs = lexicon::words(TRAIN + VALID, 1);
        let (train, valid) = pairs.split_at(TRAIN);
        let vocabs = Vocabs::build(train);
        let sizes = [vocabs.source.len(), vocabs.target.len()];
        let (model, attention) = settings(kind, sizes);
        // The name of a file that nobody reads: the pairs are in memory.
        let data = DataSource::Files {
            train: PathBuf::from("words.tsv"),
            valid: None,
            options: PairFileOptions::new(Tokenization::Chars, Tokenization::Spaces),
        };
        let mut config = RunConfig::new(model, data, train);
        config.attention = attention;
        config.train.epochs = EPOCHS;
        config.train.learning_rate = match kind {
            ModelKind::Rnn => 2e-3,
            ModelKind::Transformer => 1e-3,
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = RunDir::new(folder.path());
        run.create(&config, &vocabs)?;
        device.seed(config.train.seed);
        println!("  training on {TRAIN} words, {EPOCHS} epochs");
        let training = Training {
            model: config.init_model(&device.clone().autodiff()),
            train: vocabs.encode(train).into(),
            valid: vocabs.encode(valid).into(),
            config: config.train.clone(),
            run,
            resume_from: None,
            interrupter: Interrupter::new(),
            observer: (),
        };
        training.launch()?;
        Ok(Self {
            folder,
            config,
            vocabs,
            device: device.clone(),
        })
    }

    fn run(&self) -> RunDir {
        RunDir::new(self.folder.path())
    }

    pub(crate) fn translator(&self) -> Result<Translator> {
        Translator::load(&self.run(), &self.device)
    }

    /// The sources as ids.
    pub(crate) fn encoded(&self, words: &[Pair]) -> Vec<Vec<u32>> {
        let sources = words.iter();
        sources
            .map(|word| self.vocabs.source.encode(&word.source))
            .collect()
    }

    /// The file of the weights, all in `f32`, where each begins in it, and the tokens of the target vocabulary.
    pub(crate) fn weights(&self) -> Result<Value> {
        let trainee = Trainee::new(self.config.init_model(&self.device));
        let file = self.run().model_file()?;
        let (file, _) = file.expect("a checkpoint of the training");
        let trainee = trainee.load_file(file);
        let mut bytes = Vec::new();
        let mut parameters = Map::new();
        for (path, values) in parameters::values(&trainee.model) {
            let place = json!({ "shape": values.shape, "start": bytes.len() / size_of::<f32>() });
            parameters.insert(path, place);
            for value in values.data {
                bytes.extend((value as f32).to_le_bytes());
            }
        }
        let path = self.folder.path().join("weights.f32");
        fs::write(&path, bytes).expect("the temporary folder can be written to");
        let ids = 0..self.vocabs.target.len() as u32;
        let tokens = ids.map(|id| self.vocabs.target.decode(&[id]).concat());
        Ok(json!({
            "file": path,
            "parameters": parameters,
            "tokens": tokens.collect::<Vec<_>>(),
        }))
    }
}
