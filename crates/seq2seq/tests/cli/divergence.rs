//! Losses and gradients that are not finite.

use std::path::Path;

use attention_seq2seq::data::Examples;
use attention_seq2seq::model::AnyModel;
use attention_seq2seq::{
    AttentionKind, DataSource, Error, Example, Interrupter, RunConfig, RunDir, Seq2SeqConfig, Task,
    Training, Vocab, Vocabs,
};
use attention_tests::{assert_says, parameters};

use crate::json::list;
use crate::program::{
    Folder, assert_starts, device, ended, epochs, fail, files, manifest, resume_args, succeed,
};

const EMBEDDING: usize = 4;

/// Trains two epochs of a model to which a letter in the source is NaN, or all are.
pub(crate) fn train(folder: &Path, batch_size: usize, poison: Option<&str>) {
    let poison = poison.map(|letter| letter.to_string());
    let poisoned = |vocabs: &Vocabs| poison.map(|letter| vocabs.source.encode(&[letter])[0]);
    training(folder, batch_size, poisoned).launch().unwrap();
}

/// A training of two epochs in a new run, of a model to which a token of the source is NaN, or all are.
fn training(
    folder: &Path,
    batch_size: usize,
    poison: impl FnOnce(&Vocabs) -> Option<u32>,
) -> Training<AnyModel> {
    let (task, train, valid) = (Task::Reverse, 32, 5);
    let data = DataSource::Task { task, train, valid };
    let pairs = data.pairs(0).unwrap();
    let vocabs = Vocabs::build(&pairs.train);
    let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len())
        .with_embedding_size(EMBEDDING)
        .with_hidden_size(8);
    let mut config = RunConfig::new(model, data, &pairs.train);
    config.attention = AttentionKind::Dot;
    config.train.epochs = 2;
    config.train.batch_size = batch_size;
    config.train.patience = 9;
    let run = RunDir::new(folder.join("run"));
    run.create(&config, &vocabs).unwrap();
    let poison = poison(&vocabs);
    let device = device();
    device.seed(1);
    let model = parameters::changed(config.init_model(&device), |path, mut value| {
        if path == "encoder.embedding.weight" {
            for (id, row) in value.data.chunks_mut(EMBEDDING).enumerate() {
                if poison.is_none_or(|poison| poison as usize == id) {
                    row.fill(f64::NAN);
                }
            }
        }
        value
    });
    Training {
        model,
        train: vocabs.encode(&pairs.train).into(),
        valid: vocabs.encode(&pairs.valid).into(),
        config: config.train.clone(),
        run,
        resume_from: None,
        interrupter: Interrupter::new(),
        observer: (),
    }
}

#[test]
fn each_step_that_is_refused_is_named_and_training_goes_on() {
    let folder = &Folder::new();
    train(folder, 1, Some("q"));
    let [stdout, stderr] = ended(folder, &resume_args("3", "--threads 1"), 0);
    assert_eq!(epochs(&stdout), ["3/3"]);
    assert!((1..32).contains(&stderr.lines().count()), "{stderr}");
    for line in stderr.lines() {
        assert_starts(line, "note: refused step ");
        let end = " of 32 in epoch 3: the gradient of encoder.embedding.weight is not finite";
        assert!(line.ends_with(end), "{line}");
    }
    // Other steps were made, and only they are counted.
    let loss = &manifest(&folder.join("run"))["history"][2]["train"]["loss"];
    assert!(loss.as_f64().is_some(), "{loss}");
}

#[test]
fn ten_refused_in_a_row_end_training_without_their_checkpoints() {
    let folder = &Folder::new();
    // Four steps an epoch, all refused.
    train(folder, 8, None);
    let before = manifest(&folder.join("run"));
    assert_eq!(before["checkpoints"][1]["refused"], 8);
    let args = resume_args("5", "");
    let [_, stderr] = ended(folder, &args, 2);
    let lines: Vec<&str> = stderr.lines().collect();
    let reason = "the gradient of encoder.embedding.weight is not finite";
    let notes = [1, 2].map(|step| format!("note: refused step {step} of 4 in epoch 3: {reason}"));
    assert_eq!(lines[..2], notes);
    let error = format!(
        "error: training diverged: 10 steps in a row were refused, the last because {reason}; there is no checkpoint \
         to go on from: begin anew with a lower --learning-rate or --clip"
    );
    assert_eq!(lines[2..], [error]);
    // As in a run whose first epoch has that many steps.
    let now = manifest(&folder.join("run"));
    for part in ["checkpoints", "history"] {
        assert!(list(&now[part]).is_empty(), "{now}");
    }
    assert!(!files(folder).iter().any(|file| file.ends_with(".bpk")));
    let message = "its training was stopped before the first checkpoint";
    fail(folder, "translate abc --model run", message);
    // The program begins with other parameters.
    assert_eq!(epochs(&succeed(folder, &args))[0], "1/5");
}

#[test]
fn after_a_divergence_the_model_is_that_of_the_last_epoch_before() {
    let folder = &Folder::new();
    let id = |vocabs: &Vocabs, letter: &str| vocabs.source.encode(&[letter.to_string()])[0];
    let training = || training(folder, 8, |vocabs| Some(id(vocabs, "q")));
    let (mut good, mut diverging) = (training(), training());
    let settings = good.run.load_config().unwrap().model;
    let vocabs = good.run.load_vocabs(&settings).unwrap();
    let examples = |letter| {
        let source = vec![id(&vocabs, letter)];
        let target = vec![Vocab::SPECIAL_TOKENS as u32];
        let example = Example { source, target };
        Examples::from(vec![example; 32])
    };
    good.train = examples("a");
    good.valid = examples("a");
    // Two epochs of four steps are refused and saved, and a half.
    diverging.train = examples("q");
    diverging.valid = examples("a");
    diverging.config.epochs = 5;
    diverging.resume_from = Some(2);
    good.launch().unwrap();
    let error = diverging.launch().unwrap_err();
    let advice =
        "go on from the checkpoint of epoch 2 with a lower rate (--resume --learning-rate)";
    assert!(error.to_string().contains(advice), "{error}");
    let Error::Diverged { epoch, step, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((epoch, step), (5, 2));
    let newest = RunDir::new(folder.join("run")).last_checkpoint();
    assert_eq!(newest.unwrap(), Some(2));
    let is_left = |file: &String| file.contains("-3.bpk") || file.contains("-4.bpk");
    assert!(!files(folder).iter().any(is_left));
    let [_, stderr] = ended(folder, "translate abc --model run", 0);
    assert_says(&stderr, "this is its newest checkpoint, of epoch 2");
    let [stdout, _] = ended(folder, &resume_args("3", ""), 0);
    assert_eq!(epochs(&stdout), ["3/3"]);
}

#[test]
fn help_says_when_training_gives_up() {
    let help = succeed(&Folder::new(), "train --help");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_says(&help, "after ten in a row training ends with exit code 2");
}
