//! Several models that translate as one.

use std::path::Path;

use attention_tests::assert_says;

use crate::program::{
    Folder, TRAIN_TRANSFORMER, assert_starts, ended, fail, scores, succeed, train_args,
};

/// Checks that two models score an output together by the mean of their probabilities.
fn check_mean(folder: &Path, pair: &str, [a, b]: [&str; 2]) {
    let scores = |models: &str| scores(&succeed(folder, &format!("score {pair} --model {models}")));
    let [of_a, of_b] = [a, b].map(scores);
    for (at, score) in scores(&format!("{a} --model {b}")).iter().enumerate() {
        let mean = (of_a[at].exp() + of_b[at].exp()) / 2.0;
        assert!((score.exp() - mean).abs() < 1e-12, "{pair:?}");
    }
}

#[test]
fn several_models_translate_as_one() {
    let folder = &Folder::new();
    // The same pairs, so that the vocabularies are the same.
    succeed(folder, &train_args("reverse", "1", "--out a --seed 1"));
    succeed(folder, &format!("{TRAIN_TRANSFORMER} --out b --seed 1"));
    check_mean(folder, "abc cba", ["a", "b"]);
    let searched = succeed(folder, "translate abc --beam 3 --model a --model b");
    assert_eq!(searched.lines().count(), 1);
    let evaluation = succeed(folder, "eval --model a --model b");
    assert_starts(&evaluation, "10 sources: exact match ");
    let message = "attention weights: expected those of one model, found an ensemble of 2";
    fail(folder, "attend abc --model a --model b", message);
    succeed(folder, &train_args("dates", "1", "--out c --seed 2"));
    let message = " tokens of model 2: expected ";
    fail(folder, "translate abc --model a --model c", message);
}

#[test]
fn two_seeds_of_one_file_translate_as_one() {
    let folder = &Folder::new();
    // How often each letter comes depends on which pairs are left to validate on.
    let letter = |at: usize| char::from(b'a' + (at & 3) as u8);
    let word = |at: usize| -> String { (0..4).map(|digit| letter(at >> digit)).collect() };
    let line = |at: usize| format!("{}\t{}\n", word(at), word(at * 5 % 64));
    folder.write_lines("pairs.tsv", 64, line);
    let train = |args: &str| {
        let sizes = "--hidden 4 --embedding 4 --epochs 1 --threads 1 --source-tokens chars";
        succeed(folder, &format!("train {sizes} {args}"));
    };
    for seed in 1..=3 {
        let names = format!("--seed {seed} --out {seed}");
        train(&format!("--data pairs.tsv --target-tokens chars {names}"));
    }
    let tokens = |run: &str| {
        let run = attention_seq2seq::RunDir::new(folder.join(run));
        serde_json::to_string(&run.load_vocabs(&run.load_config().unwrap().model).unwrap()).unwrap()
    };
    let all = ["1", "2", "3"].map(tokens);
    let is_other = all[0] != all[1] || all[0] != all[2];
    assert!(is_other, "another order of the same tokens");
    for other in ["2", "3"] {
        check_mean(folder, "abca dcba", ["1", other]);
    }
    for data in ["", "--data pairs.tsv"] {
        let args = format!("eval --model 1 --model 2 --model 3 {data}");
        let [figures, notes] = ended(folder, &args, 0);
        assert_says(&figures, " sources: exact match ");
        let note = "has learned from some of these pairs";
        let has_learned = |it: i32| notes.contains(&format!("the model in {it} {note}"));
        let expected = [false, data.is_empty(), data.is_empty()];
        assert_eq!([1, 2, 3].map(has_learned), expected);
    }

    folder.write("others.tsv", "ab\tab\nba\te\nbb\tea\nbaa\tbe\n".repeat(9));
    train("--data others.tsv --target-tokens chars --seed 4 --out 4");
    let message = "have the same tokens: train both with --valid), found ";
    fail(folder, "translate ab --model 1 --model 4", message);
    // Other kinds of tokens, which no file of pairs would make the same.
    train("--data others.tsv --target-tokens spaces --out 5");
    let message = "target tokens of model 2: expected chars of nfc, as in the first model of the ensemble, found \
                   spaces of nfc";
    fail(folder, "translate ab --model 4 --model 5", message);
}
