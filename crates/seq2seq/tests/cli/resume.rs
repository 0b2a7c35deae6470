//! A training that was stopped and goes on is the one that was not stopped, bit for bit.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use crate::program::{Folder, epochs, files, newest, succeed};
use crate::signals::Running;

/// Every file of a run but the lock, with its content.
pub(crate) fn contents(run: &Path) -> Vec<(String, Vec<u8>)> {
    let files = files(run).into_iter().filter(|file| file != "lock");
    let read = |file: String| (file.clone(), fs::read(run.join(file)).unwrap());
    files.map(read).collect()
}

/// Trains in one go, and in parts: killed as soon as a checkpoint is written, and resumed.
fn check(attention: &str, threads: usize, others: &str) {
    // The quicker a training, the more epochs it takes to kill it in the middle, and the rest of it once more.
    let mut epochs = 6;
    while check_epochs(attention, threads, others, epochs) < 2 {
        epochs *= 2;
    }
}

/// [`check`] of `last` epochs; how often the training was killed before its last checkpoint.
fn check_epochs(attention: &str, threads: usize, others: &str, last: usize) -> usize {
    let folder = &Folder::new();
    let train = |out: &str| {
        format!(
            "train reverse --train-pairs 320 --valid-pairs 32 --batch-size 16 --hidden 8 --epochs {last} \
             --patience {last} --dropout 0.2 --attention {attention} --out {out} --threads {threads} {others}"
        )
    };
    let whole = succeed(folder, &train("whole"));
    assert_eq!(epochs(&whole).len(), last, "{whole}");

    let run = folder.join("parts");
    let newest = || newest(&run);
    let resume = format!("train --resume --out parts --threads {threads}");
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

    let (whole, parts) = (contents(&folder.join("whole")), contents(&run));
    assert_eq!(whole.len(), parts.len());
    for (whole, parts) in whole.iter().zip(&parts) {
        assert!(whole == parts, "{attention}: {} differs", whole.0);
    }
    stops
}

#[test]
fn additive_attention_resumed_is_the_uninterrupted_run() {
    check("additive", 1, "--embedding 4");
}

#[test]
fn dot_product_attention_resumed_is_the_uninterrupted_run() {
    check("dot", 2, "--embedding 4 --layers 2");
}

#[test]
fn noisy_attention_resumed_is_the_uninterrupted_run() {
    check("monotonic", 1, "--embedding 4 --cell lstm");
}

#[test]
fn an_average_of_weights_resumed_is_the_uninterrupted_run() {
    let recipe = "--layers 2 --layer-dropout 0.1 --embedding-dropout 0.1 --ema 0.99 --label-smoothing 0.1 --select \
                  error-rate";
    check("bilinear", 2, recipe);
}

#[test]
fn a_transformer_resumed_is_the_uninterrupted_run() {
    // The learning rate stops rising in the second epoch.
    check("dot", 2, "--model transformer --heads 2 --warmup 31");
}
