//! The mean of the weights of checkpoints.

use std::fs;
use std::path::Path;

use attention_seq2seq::{RunDir, Translator};

use crate::program::{copied, fail, files, succeed, train_args};
use crate::support::device;

/// The scores of a pair by the model of a run: others with other weights.
fn scores(folder: &Path, run: &str) -> Vec<f64> {
    let run = RunDir::new(folder.join(run));
    let translator = Translator::load(&run, &device().inner()).unwrap();
    let [source, target] = ["abc", "cba"].map(|text| translator.split_source(text));
    translator.score(&source, &target).unwrap().tokens
}

#[test]
fn the_mean_of_one_checkpoint_is_that_checkpoint() {
    let (folder, run) = copied();
    let folder = folder.path();
    let kept = RunDir::new(&run).checkpoints().unwrap();
    assert_eq!(kept, [1, 2]);
    for epoch in ["1", "2"] {
        let out = format!("mean-{epoch}");
        let args = ["average", "run", "--epochs", epoch, "--out", &out];
        assert_eq!(
            succeed(folder, &args),
            format!("the mean of 1 checkpoint is in {out}\n")
        );
        let [mean, own] = [&folder.join(&out), &run].map(|run| {
            fs::read(run.join(format!("checkpoint/model-{epoch}.bpk")))
                .unwrap()
                .len()
        });
        assert_eq!(mean, own);
    }
    // The model of the run is one of both.
    let model = scores(folder, "run");
    assert!([scores(folder, "mean-1"), scores(folder, "mean-2")].contains(&model));
}

#[test]
fn the_mean_is_a_run_that_every_command_reads() {
    let (folder, _) = copied();
    let folder = folder.path();
    let stdout = succeed(folder, &["average", "run", "--out", "mean"]);
    assert_eq!(stdout, "the mean of 2 checkpoints is in mean\n");
    let [both, first, second] = ["mean", "run", "run"].map(|run| scores(folder, run));
    assert!(both != first && both != second);
    for args in [
        &["translate", "abc"][..],
        &["eval"],
        &["attend", "abc"],
        &["score", "abc", "cba"],
    ] {
        succeed(folder, &[args, &["--model", "mean"]].concat());
    }
    let expected = [
        "checkpoint/model-2.bpk",
        "checkpoint/optim-2.bpk",
        "lock",
        "run.json",
    ];
    assert_eq!(files(&folder.join("mean")), expected);
    // Twice the same model, in two folders, is that model; a mean with itself, too.
    succeed(folder, &["average", "mean", "mean", "--out", "again"]);
    assert_eq!(scores(folder, "again"), both);
    // Training goes on from it.
    succeed(
        folder,
        &[
            "train",
            "--resume",
            "--out",
            "mean",
            "--epochs",
            "3",
            "--threads",
            "1",
        ],
    );
    assert_eq!(
        RunDir::new(folder.join("mean")).checkpoints().unwrap(),
        [2, 3]
    );
}

#[test]
fn checkpoints_that_do_not_fit_are_refused() {
    let (folder, _) = copied();
    let folder = folder.path();
    succeed(
        folder,
        &train_args("copy", "1", &["--out", "copy", "--seed", "5"]),
    );
    succeed(
        folder,
        &train_args("reverse", "1", &["--out", "dot", "--attention", "dot"]),
    );
    let average = |args: &[&str], message: &str| {
        fail(folder, &[&["average"], args].concat(), message);
    };
    average(
        &["run", "dot", "--out", "x"],
        "the attention of the run in run: expected that of the run in dot, found additive",
    );
    average(
        &["run", "missing", "--out", "x"],
        "no trained model is there",
    );
    average(&["missing", "--out", "x"], "no trained model is there");
    average(
        &["run", "--epochs", "1,3", "--out", "x"],
        "--epochs: expected epochs whose checkpoints are kept (1, 2), found 3",
    );
    average(
        &["run", "dot", "--epochs", "1", "--out", "x"],
        "--epochs: expected the folder of one training, found 2 folders",
    );
    average(
        &["run", "--out", "dot"],
        "a folder without a run (name another with --out, or add --overwrite), found a run",
    );
    succeed(folder, &["average", "run", "--out", "dot", "--overwrite"]);
    // The letters of `copy` come in another order.
    average(
        &["run", "copy", "--out", "x"],
        "the vocabularies of the run in run: expected those of the run in copy, found others",
    );
}
