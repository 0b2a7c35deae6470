use burn::module::{Module, Param};
use burn::tensor::{Bytes, Tensor};
use tempfile::TempDir;

use super::*;
use crate::attention::AttentionKind;
use crate::data::Pairs;
use crate::data::corpus::Corpus;
use crate::data::tasks::Task;
use crate::device::test_device as device;
use crate::error::Result;
use crate::model::{AnyModel, AttentionHead, Seq2SeqConfig, TransformerConfig};
use crate::run::{CheckpointFiles, DataSource, RunConfig, RunDir, Select};
use crate::tests::{epoch_of, line, pair, vocabs};
use crate::text::tokens::Tokenization::Chars;
use crate::text::vocab::Vocab;
use crate::train::Trainee;

mod explain;
mod search;

const MAX_LEN: usize = 5;

/// Settings of a model with six source letters and two target letters.
fn config() -> RunConfig {
    let (task, train, valid) = (Task::Reverse, 3, 3);
    let data = DataSource::Task { task, train, valid };
    RunConfig {
        max_len: MAX_LEN,
        ..RunConfig::new(sizes(), data, &[])
    }
}

fn sizes() -> Seq2SeqConfig {
    Seq2SeqConfig::new(10, 6)
        .with_embedding_size(3)
        .with_hidden_size(4)
}

fn created() -> (TempDir, RunDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path().join("run"));
    run.create(&config(), &vocabs("abcdef", "xy")).unwrap();
    (folder, run)
}

/// Adds an epoch to a run, whose model has these biases of its logits. With small ones the source decides.
fn add(run: &RunDir, epoch: usize, bias: [f32; 6]) {
    let before = run.checkpoints().unwrap().last().copied();
    let mut journal = run.journal(before, Select::Loss).unwrap();
    journal.open().unwrap();
    let files = CheckpointFiles::of(&model(bias), b"optim");
    journal.add(epoch_of(epoch, 1.0), &files).unwrap();
}

fn model(bias: [f32; 6]) -> Bytes {
    let device = device();
    let AnyModel::Rnn(mut model) = config().init_model(&device) else {
        panic!("the settings are those of a recurrent model")
    };
    let [size, tokens] = model.decoder.output.weight.dims();
    let normal = burn::tensor::Distribution::Normal(0.0, 1.0);
    let weight = Tensor::random([size, tokens], normal, &device);
    model.decoder.output.weight = Param::from_tensor(weight);
    model.decoder.output.bias = Some(Param::from_tensor(Tensor::from_data(bias, &device)));
    Trainee::new(model).into_record().into_bytes().unwrap()
}

fn loaded(bias: [f32; 6]) -> (TempDir, Translator) {
    let (folder, run) = created();
    add(&run, 1, bias);
    (folder, Translator::load(&run, &device()).unwrap())
}

/// A translator with a limit that is not compared with the memory of this machine.
fn unchecked(bias: [f32; 6], max_len: usize) -> (TempDir, Translator) {
    let (folder, mut translator) = loaded(bias);
    translator.max_len = max_len;
    (folder, translator)
}

const NO_TOKEN: &str = "a source: expected at least one token, found none";

const PREDICTS_X: [f32; 6] = [0.0, 0.0, 0.0, 0.0, 99.0, 0.0];

#[cfg(target_os = "linux")]
#[test]
fn weights_that_fit_into_no_memory_are_refused() {
    // 520 TiB of them.
    let (_folder, translator) = unchecked(PREDICTS_X, 1 << 40);
    let line = line(translator.attend(&Chars.split("a"), AttentionHead::default()));
    let message = "the memory of the attention weights: expected at most the ";
    assert!(line.starts_with(message), "{line}");
}

#[test]
fn any_of_several_targets_is_right() {
    let (_folder, translator) = loaded(PREDICTS_X);
    let valid = vec![
        pair("a", "xxxxx"),
        pair("b", "yy"),
        pair("a", "y"),
        pair("b", "xxxxx"),
        pair("c", "xxxy"),
    ];
    let errors = translator.errors(&valid).unwrap();
    let train = Vec::new();
    let corpus = Corpus::of_pairs(&Pairs { train, valid }, Chars);
    assert_eq!(translator.valid_errors(&corpus).unwrap(), errors);
    assert_eq!(errors.sequences(), 3);
    assert_eq!(errors.exact_match(), 2.0 / 3.0);
    assert_eq!(errors.token_error_rate(), 2.0 / 14.0);
}

#[test]
fn a_source_without_tokens_is_an_error() {
    let (_folder, translator) = loaded(PREDICTS_X);
    let without = pair("", "x");
    let some = Chars.split("a");
    for found in [
        line(translator.translate_tokens(&[&some, &[]])),
        line(translator.attend(&[], AttentionHead::default())),
        line(translator.errors(&[without])),
    ] {
        assert_eq!(found, NO_TOKEN);
    }
}

#[test]
fn a_model_of_other_sizes_is_an_error() {
    let (_folder, run) = created();
    add(&run, 1, PREDICTS_X);
    let mut other = config();
    for change in [
        |config: &mut RunConfig| config.model = sizes().with_hidden_size(6).into(),
        |config: &mut RunConfig| config.model = sizes().with_layers(2).into(),
        |config: &mut RunConfig| config.model = sizes().with_bidirectional(false).into(),
        |config: &mut RunConfig| {
            config.model = TransformerConfig::new(10, 6).with_hidden_size(4).into();
            config.attention = AttentionKind::Dot;
        },
        |config: &mut RunConfig| config.attention = AttentionKind::Dot,
    ] {
        change(&mut other);
        run.save_config(&other).unwrap();
        let line = line(Translator::load(&run, &device()));
        assert!(line.starts_with("cannot use the model"), "{line}");
        assert!(line.contains("model-1.bpk: "), "{line}");
        other = config();
    }
    run.save_config(&other).unwrap();
    assert!(Translator::load(&run, &device()).is_ok());
}
