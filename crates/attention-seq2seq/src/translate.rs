//! A trained model at work.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;

use crate::attention::AnyAttention;
use crate::batch::Source;
use crate::data::{Pair, group_by_source};
use crate::error::{Error, Result};
use crate::metrics::TokenErrors;
use crate::model::Seq2Seq;
use crate::run::{RunConfig, RunDir};
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
    model: Seq2Seq<AnyAttention>,
    config: RunConfig,
    source: Vocab,
    target: Vocab,
    device: Device,
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
        let attention = config.attention.init(&config.model, device);
        let trainee = Trainee::new(config.model.init(attention, device))
            .try_load_file(file)
            .map_err(|error| Error::unusable(file, error))?;
        Ok(Self {
            model: trainee.model.valid(),
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
            return Err(Error::Config {
                what: "the text to translate".to_string(),
                expected: "at least one token".to_string(),
                found: "none".to_string(),
            });
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
        let encoded: Vec<Vec<u32>> = sources
            .iter()
            .map(|source| self.source.encode(source))
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
                outputs[index] = self.target.decode(tokens);
            }
        }
        outputs
    }

    /// The most likely target tokens of one source, and what each attended to.
    pub fn attend(&self, source: &[String]) -> Attended {
        let encoded = self.source.encode(source);
        let batch = Source::new([encoded.as_slice()], &self.device);
        let translation = self.model.greedy(&batch, self.config.max_len, true);
        let tokens = &translation.tokens[0];
        let weights = translation.weights.into_iter();
        let weights: Vec<f32> = weights
            .flat_map(|row| row.try_into_vec_as::<f32>().expect("weights are floats"))
            .collect();
        // Not decoded: a model that has learned little may say "pad", and that step has weights too.
        let name = |&token: &u32| self.target.token(token).unwrap_or_default().to_string();
        let mut target: Vec<String> = tokens.iter().map(name).collect();
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use burn::module::Param;
    use burn::tensor::Tensor;
    use tempfile::TempDir;

    use super::*;
    use crate::device;
    use crate::model::Seq2SeqConfig;
    use crate::run::{AttentionKind, DataSource};
    use crate::tasks::Task;
    use crate::tokens::Tokenization::Chars;
    use crate::train::TrainConfig;

    const MAX_LEN: usize = 5;

    fn device() -> Device {
        device::open(device::compiled_in()[0]).unwrap()
    }

    /// Settings of a model that knows six letters and says two.
    fn config() -> RunConfig {
        let data = DataSource::Task {
            task: Task::Reverse,
            train: 3,
            valid: 3,
        };
        let train = TrainConfig {
            epochs: 1,
            batch_size: 1,
            learning_rate: 0.1,
            clip: 1.0,
            patience: 1,
            seed: 0,
        };
        let model = Seq2SeqConfig::new(10, 6)
            .with_embedding_size(3)
            .with_hidden_size(4);
        let mut config = RunConfig::new(AttentionKind::Additive, model, train, data, &[]);
        config.max_len = MAX_LEN;
        config
    }

    fn created() -> (TempDir, RunDir) {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::new(folder.path().join("run"));
        let vocab = |letters: &str| Vocab::build([&Chars.split(letters)[..]]);
        run.create(&config(), &vocab("abcdef"), &vocab("xy"))
            .unwrap();
        (folder, run)
    }

    /// Saves a model whose every output starts from these logits. Small ones leave the choice to what it reads.
    fn save(file: &Path, bias: [f32; 6]) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let device = device();
        let config = config();
        let attention = config.attention.init(&config.model, &device);
        let mut model = config.model.init(attention, &device);
        let [size, tokens] = model.decoder.output.weight.dims();
        let normal = burn::tensor::Distribution::Normal(0.0, 1.0);
        let weight = Tensor::random([size, tokens], normal, &device);
        model.decoder.output.weight = Param::from_tensor(weight);
        model.decoder.output.bias = Some(Param::from_tensor(Tensor::from_data(bias, &device)));
        Trainee::new(model).save_file(file).unwrap();
    }

    fn loaded(bias: [f32; 6]) -> (TempDir, Translator) {
        let (folder, run) = created();
        save(&run.model_file(), bias);
        (folder, Translator::load(&run, &device()).unwrap())
    }

    const SAYS_NOTHING: [f32; 6] = [0.0, 0.0, 99.0, 0.0, 0.0, 0.0];
    const SAYS_X: [f32; 6] = [0.0, 0.0, 0.0, 0.0, 99.0, 0.0];
    const SAYS_PADDING: [f32; 6] = [99.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    const SAYS_WHAT_IT_READS: [f32; 6] = [-9.0, -9.0, 0.0, 0.0, 0.0, 0.0];

    fn line<T>(result: Result<T>) -> String {
        let line = result.err().unwrap().to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    }

    #[test]
    fn outputs_come_in_the_order_of_their_sources() {
        let texts = ["fade", "a", "bed", "a", "decade", "cab", "f"];
        let sources = texts.map(|text| Chars.split(text));
        let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
        // A new model says the same to all of them now and then; then nothing could be told from its order.
        let models = (0..100).map(|_| loaded(SAYS_WHAT_IT_READS));
        let mut translations = models.map(|(folder, translator)| {
            let outputs = translator.translate(&sources);
            (folder, translator, outputs)
        });
        let (_folder, translator, outputs) = translations
            .find(|(_, _, outputs)| outputs.iter().any(|output| *output != outputs[0]))
            .unwrap();
        for (source, output) in sources.iter().zip(&outputs) {
            assert_eq!(&translator.translate(&[source])[0], output);
            assert_eq!(&translator.attend(source).target[..output.len()], output);
        }
        assert!(translator.translate(&[]).is_empty());
    }

    #[test]
    fn weights_have_a_row_for_every_token_and_for_the_end() {
        let source = Chars.split("cab");
        let check = |bias, target: &[&str]| {
            let (_folder, translator) = loaded(bias);
            let attended = translator.attend(&source);
            assert_eq!(attended.source, source);
            assert_eq!(attended.target, target);
            assert_eq!(attended.weights.len(), target.len() * source.len());
            for row in attended.weights.chunks(source.len()) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
            }
        };
        check(SAYS_NOTHING, &["<eos>"]);
        check(SAYS_X, &["x"; MAX_LEN]);
        // A model that has learned little says this: it is shown, but is no part of a translation.
        check(SAYS_PADDING, &["<pad>"; MAX_LEN]);
        let (_folder, translator) = loaded(SAYS_PADDING);
        assert_eq!(translator.translate(&[&source]), vec![Vec::<String>::new()]);
    }

    #[test]
    fn a_source_is_checked_where_a_person_wrote_it() {
        let (_folder, translator) = loaded(SAYS_X);
        assert_eq!(
            line(translator.source_tokens("ab?")),
            "unknown token \"?\" at position 3; expected one of: \"a\" \"b\" \"c\" \"d\" \"e\" \"f\""
        );
        assert_eq!(
            line(translator.source_tokens("")),
            "the text to translate: expected at least one token, found none"
        );
        // Of data that is measured it may be anything.
        let unknown = Chars.split("a?");
        assert_eq!(translator.translate(&[&unknown])[0], ["x"; MAX_LEN]);
        assert_eq!(translator.attend(&unknown).source, unknown);
        assert_eq!(translator.target_text(&Chars.split("xyx")), "xyx");
    }

    #[test]
    fn any_of_several_targets_is_right() {
        let (_folder, translator) = loaded(SAYS_X);
        let pair = |source: &str, target: &str| Pair {
            source: Chars.split(source),
            target: Chars.split(target),
        };
        let errors = translator.errors(&[
            pair("a", "xxxxx"),
            pair("b", "yy"),
            pair("a", "y"),
            pair("b", "xxxxx"),
            pair("c", "xxxy"),
        ]);
        assert_eq!(errors.sequences(), 3);
        assert_eq!(errors.exact_match(), 2.0 / 3.0);
        assert_eq!(errors.token_error_rate(), 2.0 / 14.0);
    }

    #[test]
    fn without_a_model_the_newest_whole_checkpoint_is_loaded() {
        let (_folder, run) = created();
        assert_eq!(
            line(Translator::load(&run, &device()))
                .split_once(": ")
                .unwrap()
                .1,
            "its training was stopped before the first checkpoint; train again with --resume"
        );
        for (epoch, bias) in [(1, SAYS_PADDING), (2, SAYS_NOTHING), (10, SAYS_X)] {
            save(&run.checkpoint_file("model", epoch), bias);
        }
        for part in ["optim", "scheduler"] {
            for epoch in [1, 2] {
                std::fs::write(run.checkpoint_file(part, epoch), "").unwrap();
            }
        }
        let says =
            |translator: Result<Translator>| translator.unwrap().attend(&Chars.split("a")).target;
        assert_eq!(says(Translator::load(&run, &device())), ["<eos>"]);
        let first = Translator::from_checkpoint(&run, 1, &device());
        assert_eq!(says(first), ["<pad>"; MAX_LEN]);
        save(&run.model_file(), SAYS_X);
        assert_eq!(says(Translator::load(&run, &device())), ["x"; MAX_LEN]);
    }

    #[test]
    fn a_model_of_other_sizes_is_an_error() {
        let (_folder, run) = created();
        save(&run.model_file(), SAYS_X);
        let mut other = config();
        for change in [
            |config: &mut RunConfig| config.model.hidden_size = 6,
            |config: &mut RunConfig| config.model.layers = 2,
            |config: &mut RunConfig| config.model.bidirectional = false,
            |config: &mut RunConfig| config.attention = AttentionKind::Dot,
        ] {
            change(&mut other);
            run.save_config(&other).unwrap();
            let line = line(Translator::load(&run, &device()));
            assert!(line.starts_with("cannot use the checkpoint"), "{line}");
            assert!(line.contains("model.bpk: "), "{line}");
            other = config();
        }
        run.save_config(&other).unwrap();
        assert!(Translator::load(&run, &device()).is_ok());
    }
}
