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

/// Trains in one go, and in six: killed as soon as a checkpoint is written, and resumed.
fn check(attention: &str, others: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
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
            "--embedding",
            "4",
            "--hidden",
            "8",
            "--epochs",
            "6",
            "--patience",
            "6",
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
    assert_eq!(epochs(&whole).len(), 6, "{whole}");

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
    while newest().is_none_or(|epoch| epoch < 5) {
        let next = newest().unwrap_or(0) + 1;
        let running = Running::start(folder, &args);
        let killed = running.signal_when("-KILL", || newest() >= Some(next));
        assert_eq!(killed.status.code(), None, "killed by the signal");
        stops += 1;
        args = resume.clone();
    }
    assert!(stops >= 2, "{stops} interruptions");
    let last = succeed(folder, &resume);
    assert_eq!(epochs(&last).last(), Some(&"6/6"), "{last}");

    let (whole, parts) = (contents(&folder.join("whole")), contents(run.path()));
    let names = |run: &[(String, Vec<u8>)]| -> Vec<String> {
        run.iter().map(|(file, _)| file.clone()).collect()
    };
    assert_eq!(names(&whole), names(&parts));
    for ((file, whole), (_, parts)) in whole.iter().zip(&parts) {
        assert!(whole == parts, "{attention}: {file} differs");
    }
}

#[test]
fn additive_attention_resumed_is_the_uninterrupted_run() {
    check("additive", &["--threads", "1"]);
}

#[test]
fn dot_product_attention_resumed_is_the_uninterrupted_run() {
    check("dot", &["--threads", "2", "--layers", "2"]);
}

#[test]
fn noisy_attention_resumed_is_the_uninterrupted_run() {
    check("monotonic", &["--threads", "1", "--cell", "lstm"]);
}
