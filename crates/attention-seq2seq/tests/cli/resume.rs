//! A training that was stopped and goes on is the one that was not stopped, bit for bit.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use attention_seq2seq::RunDir;

use crate::program::{epochs, files, succeed};
use crate::signals::Running;

/// Every file of a run but the lock, with its content.
pub(crate) fn contents(run: &Path) -> Vec<(String, Vec<u8>)> {
    let files = files(run).into_iter().filter(|file| file != "lock");
    files
        .map(|file| {
            let content = fs::read(run.join(&file)).unwrap();
            (file, content)
        })
        .collect()
}

/// Trains in one go, and in parts: killed as soon as a checkpoint is written, and resumed.
fn check(attention: &str, others: &[&str]) {
    // The quicker a training, the more epochs it takes to kill it in the middle, and the rest of it once more.
    let mut epochs = 6;
    while check_epochs(attention, others, epochs) < 2 {
        epochs *= 2;
    }
}

/// [`check`] of so many epochs; how often the training was killed before its last checkpoint.
fn check_epochs(attention: &str, others: &[&str], last: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let number_of_epochs = last.to_string();
    let train = |out: &'static str| {
        let settings = [
            "train",
            "reverse",
            "--train-pairs",
            "320",
            "--valid-pairs",
            "32",
            "--batch-size",
            "16",
            "--hidden",
            "8",
            "--epochs",
            &number_of_epochs,
            "--patience",
            &number_of_epochs,
            "--dropout",
            "0.2",
            "--attention",
            attention,
            "--out",
            out,
        ];
        [&settings, others].concat()
    };
    let whole = succeed(folder, &train("whole"));
    assert_eq!(epochs(&whole).len(), last, "{whole}");

    let run = RunDir::new(folder.join("parts"));
    let newest = || run.checkpoints().unwrap().last().copied();
    let threads: Vec<&str> = others
        .iter()
        .copied()
        .skip_while(|option| *option != "--threads")
        .take(2)
        .collect();
    let resume = [&["train", "--resume", "--out", "parts"], &threads[..]].concat();
    let mut args = train("parts");
    let mut stops = 0;
    while newest().is_none_or(|epoch| epoch < last - 1) {
        let next = newest().unwrap_or(0) + 1;
        let killed = Running::start(folder, &args).kill_when(|| newest() >= Some(next));
        stops += usize::from(killed && newest() < Some(last));
        args = resume.clone();
    }
    succeed(folder, &resume);
    assert_eq!(newest(), Some(last));

    let (whole, parts) = (contents(&folder.join("whole")), contents(run.path()));
    let names = |run: &[(String, Vec<u8>)]| -> Vec<String> {
        run.iter().map(|(file, _)| file.clone()).collect()
    };
    assert_eq!(names(&whole), names(&parts));
    for ((file, whole), (_, parts)) in whole.iter().zip(&parts) {
        assert!(whole == parts, "{attention}: {file} differs");
    }
    stops
}

#[test]
fn additive_attention_resumed_is_the_uninterrupted_run() {
    check("additive", &["--threads", "1", "--embedding", "4"]);
}

#[test]
fn dot_product_attention_resumed_is_the_uninterrupted_run() {
    let sizes = ["--embedding", "4", "--layers", "2"];
    check("dot", &[&["--threads", "2"], &sizes[..]].concat());
}

#[test]
fn noisy_attention_resumed_is_the_uninterrupted_run() {
    let sizes = ["--embedding", "4", "--cell", "lstm"];
    check("monotonic", &[&["--threads", "1"], &sizes[..]].concat());
}

#[test]
fn an_average_of_weights_resumed_is_the_uninterrupted_run() {
    let recipe = [
        "--threads",
        "2",
        "--layers",
        "2",
        "--layer-dropout",
        "0.1",
        "--embedding-dropout",
        "0.1",
        "--ema",
        "0.99",
        "--label-smoothing",
        "0.1",
        "--select",
        "error-rate",
    ];
    check("bilinear", &recipe);
}

#[test]
fn a_transformer_resumed_is_the_uninterrupted_run() {
    // The last steps of the rise of the learning rate are those of the second epoch.
    let settings = ["--model", "transformer", "--heads", "2", "--warmup", "31"];
    check("dot", &[&["--threads", "2"], &settings[..]].concat());
}
