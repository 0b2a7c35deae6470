//! Several models that translate as one.

use std::fs;
use std::path::Path;

use crate::program::{fail, run, succeed, train_args};

/// The log-probabilities of the tokens of an output.
fn scores(folder: &Path, pair: [&str; 2], models: &[&str]) -> Vec<f64> {
    let args = [&["score"], &pair[..], models].concat();
    let stdout = succeed(folder, &args);
    let tokens = stdout.trim_end().split('\t').nth(3).unwrap();
    tokens.split(' ').map(|it| it.parse().unwrap()).collect()
}

/// Checks that two models score an output together by the mean of their probabilities.
fn check_mean(folder: &Path, pair: [&str; 2], [a, b]: [&str; 2]) {
    let [of_a, of_b] = [a, b].map(|model| scores(folder, pair, &["--model", model]));
    let both = scores(folder, pair, &["--model", a, "--model", b]);
    for (at, score) in both.iter().enumerate() {
        let mean = (of_a[at].exp() + of_b[at].exp()) / 2.0;
        assert!((score.exp() - mean).abs() < 1e-12, "{pair:?}");
    }
}

#[test]
fn several_models_translate_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Of the same pairs, so that the vocabularies are the same.
    let others = ["--out", "a", "--seed", "1"];
    succeed(folder, &train_args("reverse", "1", &others));
    let args = "train reverse --model transformer --out b --seed 1 --train-pairs 64 --valid-pairs 10 \
                --batch-size 32 --hidden 8 --epochs 1 --threads 1";
    succeed(folder, &args.split_whitespace().collect::<Vec<_>>());
    let both = ["--model", "a", "--model", "b"];
    check_mean(folder, ["abc", "cba"], ["a", "b"]);
    let args = [&["translate", "abc", "--beam", "3"], &both[..]].concat();
    assert_eq!(succeed(folder, &args).lines().count(), 1);
    let evaluation = succeed(folder, &[&["eval"], &both[..]].concat());
    assert!(
        evaluation.starts_with("10 sources: exact match "),
        "{evaluation}"
    );
    fail(
        folder,
        &[&["attend", "abc"], &both[..]].concat(),
        "attention weights: expected those of one model, found an ensemble of 2",
    );
    succeed(
        folder,
        &train_args("dates", "1", &["--out", "c", "--seed", "2"]),
    );
    let others = ["translate", "abc", "--model", "a", "--model", "c"];
    fail(folder, &others, " tokens of model 2: expected ");
}

#[test]
fn two_seeds_of_one_file_translate_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // How often each letter comes depends on which pairs are left to validate on.
    let word = |at: usize| -> String {
        (0..4)
            .map(|digit| char::from(b'a' + (at >> digit & 3) as u8))
            .collect()
    };
    let lines: String = (0..64)
        .map(|at| format!("{}\t{}\n", word(at), word(at * 5 % 64)))
        .collect();
    fs::write(folder.join("pairs.tsv"), lines).unwrap();
    let train = |seed: &str, file: &str| {
        let args = "train --hidden 4 --embedding 4 --epochs 1 --threads 1 --source-tokens chars --target-tokens chars";
        let args: Vec<&str> = args
            .split(' ')
            .chain(["--data", file, "--seed", seed, "--out", seed])
            .collect();
        succeed(folder, &args);
    };
    ["1", "2", "3"]
        .iter()
        .for_each(|seed| train(seed, "pairs.tsv"));
    let tokens = |run: &str| {
        let run = attention_seq2seq::RunDir::new(folder.join(run));
        let config = run.load_config().unwrap();
        serde_json::to_string(&run.load_vocabs(&config.model).unwrap()).unwrap()
    };
    let all = ["1", "2", "3"].map(tokens);
    assert!(
        all[0] != all[1] || all[0] != all[2],
        "another order of the same tokens"
    );
    for other in ["2", "3"] {
        check_mean(folder, ["abca", "dcba"], ["1", other]);
    }
    let models = ["--model", "1", "--model", "2", "--model", "3"];
    for data in [&[][..], &["--data", "pairs.tsv"]] {
        let output = run(folder, &[&["eval"], &models[..], data].concat());
        let [figures, notes] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        assert!(figures.contains(" sources: exact match "), "{figures}");
        let learned = |it: &str| {
            notes.contains(&format!(
                "the model in {it} has learned from some of these pairs"
            ))
        };
        assert_eq!(
            ["1", "2", "3"].map(learned),
            [false, data.is_empty(), data.is_empty()]
        );
    }

    fs::write(
        folder.join("others.tsv"),
        "ab\tab\nba\te\nbb\tea\nbaa\tbe\n".repeat(9),
    )
    .unwrap();
    train("4", "others.tsv");
    let others = ["translate", "ab", "--model", "1", "--model", "4"];
    fail(
        folder,
        &others,
        "have the same tokens: train both with --valid), found ",
    );
    // Other kinds of tokens, which no file of pairs would make the same.
    let args = "train --data others.tsv --hidden 4 --embedding 4 --epochs 1 --threads 1 --source-tokens chars \
                --target-tokens spaces --out 5";
    succeed(folder, &args.split_whitespace().collect::<Vec<_>>());
    let others = ["translate", "ab", "--model", "4", "--model", "5"];
    fail(
        folder,
        &others,
        "target tokens of model 2: expected chars of nfc, as in the first model of the ensemble, found spaces of nfc",
    );
}
