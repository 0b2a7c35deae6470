//! Losses and gradients that are not finite.

use std::path::Path;

use attention_seq2seq::{
    AttentionKind, DataSource, Interrupter, RunConfig, RunDir, Seq2SeqConfig, Task, TrainConfig,
    Training, Vocabs,
};
use attention_tests::parameters;

use crate::program::{epochs, files, manifest, run, succeed, text};
use crate::support::device;

const EMBEDDING: usize = 4;

/// Trains two epochs of a model to which a letter in the source is NaN, or all are.
fn train(folder: &Path, batch_size: usize, poison: Option<&str>) {
    let data = DataSource::Task {
        task: Task::Reverse,
        train: 32,
        valid: 5,
    };
    let pairs = data.pairs(0).unwrap();
    let vocabs = Vocabs::build(&pairs.train);
    let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len())
        .with_embedding_size(EMBEDDING)
        .with_hidden_size(8);
    let config = RunConfig {
        attention: AttentionKind::Dot,
        train: TrainConfig {
            epochs: 2,
            batch_size,
            patience: 9,
            ..TrainConfig::default()
        },
        ..RunConfig::new(model, data, &pairs.train)
    };
    let run = RunDir::new(folder.join("run"));
    run.create(&config, &vocabs).unwrap();
    let poison = poison.map(|letter| vocabs.source.encode(&[letter.to_string()])[0]);
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
    let training = Training {
        model,
        train: vocabs.encode(&pairs.train).into(),
        valid: vocabs.encode(&pairs.valid).into(),
        config: config.train.clone(),
        run,
        resume_from: None,
        interrupter: Interrupter::new(),
    };
    training.launch().unwrap();
}

#[test]
fn each_step_that_is_refused_is_named_and_training_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, 1, Some("q"));
    let args = [
        "train",
        "--resume",
        "--out",
        "run",
        "--epochs",
        "3",
        "--threads",
        "1",
    ];
    let output = run(folder, &args);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(epochs(&stdout), ["3/3"]);
    let count = stderr.lines().count();
    assert!((1..32).contains(&count), "{stderr}");
    for line in stderr.lines() {
        assert!(line.starts_with("note: refused step "), "{line}");
        let end = " of 32 in epoch 3: the gradient of encoder.embedding.weight is not finite";
        assert!(line.ends_with(end), "{line}");
    }
    // Other steps were made, and only they are counted.
    let loss = &manifest(&folder.join("run"))["history"][2]["train"]["loss"];
    assert!(loss.as_f64().is_some(), "{loss}");
}

#[test]
fn ten_refused_in_a_row_end_training_with_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Of four steps an epoch, all of which are refused.
    train(folder, 8, None);
    let before = manifest(&folder.join("run"));
    assert_eq!(before["checkpoints"][1]["refused"], 8);
    let args = ["train", "--resume", "--out", "run", "--epochs", "5"];
    for _ in 0..2 {
        let output = run(folder, &args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let lines: Vec<&str> = stderr.lines().collect();
        let reason = "the gradient of encoder.embedding.weight is not finite";
        assert_eq!(
            lines,
            [
                format!("note: refused step 1 of 4 in epoch 3: {reason}"),
                format!("note: refused step 2 of 4 in epoch 3: {reason}"),
                format!(
                    "error: training diverged: 10 steps in a row were refused, the last because {reason}; go on from \
                     the last checkpoint with a lower rate (--resume --learning-rate), or begin anew with a lower \
                     --clip"
                ),
            ]
        );
        let now = manifest(&folder.join("run"));
        assert_eq!(now["checkpoints"], before["checkpoints"]);
        assert_eq!(now["history"], before["history"]);
    }
    assert!(!files(folder).iter().any(|file| file.contains("model-3")));
    let translated = run(folder, &["translate", "abc", "--model", "run"]);
    assert_eq!(translated.status.code(), Some(0));
}

#[test]
fn help_says_when_training_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let help = succeed(folder.path(), &["train", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "after ten in a row training ends with exit code 2";
    assert!(help.contains(sentence), "{help}");
}
