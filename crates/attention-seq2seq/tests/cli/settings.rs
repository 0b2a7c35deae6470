//! Settings of a training from a file, a preset and the command line.

use std::fs;
use std::path::Path;

use crate::program::{fail, run, succeed, written};

/// The settings that a training would have.
#[track_caller]
fn printed(folder: &Path, args: &[&str]) -> String {
    succeed(folder, &[&["train", "--print-config"], args].concat())
}

#[track_caller]
fn check_line(printed: &str, line: &str) {
    assert!(printed.lines().any(|it| it == line), "{line}: {printed}");
}

/// The error of a file of settings, after its name.
fn error_of(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.toml"), text).unwrap();
    let args = ["train", "copy", "--config", "x.toml"];
    let [_, stderr] = written(&args, &run(folder.path(), &args), 2);
    assert!(!folder.path().join("runs").exists());
    stderr.trim().to_string()
}

#[test]
fn the_command_line_wins_over_a_file_and_a_file_over_a_preset() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = "hidden = 24\ndropout = 0.5\nunidirectional = true\n";
    fs::write(folder.join("x.toml"), file).unwrap();
    let args = ["--preset", "g2p", "--config", "x.toml", "--dropout", "0.25"];
    let all = printed(folder, &args);
    for line in [
        "cell = \"lstm\"",
        "hidden = 24",
        "dropout = 0.25",
        "unidirectional = true",
        "seed = 0",
        "train-pairs = 24000",
    ] {
        check_line(&all, line);
    }
    let args = [&args[..], &["--unidirectional=false"]].concat();
    check_line(&printed(folder, &args), "unidirectional = false");
    assert!(!folder.join("runs").exists());
}

#[test]
fn printed_settings_are_a_file_of_the_same_settings() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("pairs.tsv"), "a b\tx\tc d\nb\ty\td\nc\tz\te\n").unwrap();
    let of_task = ["reverse", "--train-pairs", "20", "--clip", "0.3"];
    let of_file = ["--data", "pairs.tsv", "--columns", "3,1", "--cell", "lstm"];
    let transformer = ["copy", "--model", "transformer", "--heads", "2"];
    let of_steps = ["copy", "--train-pairs", "7", "--steps", "8000"];
    for args in [&of_task[..], &of_file, &transformer, &of_steps] {
        let all = printed(folder, args);
        fs::write(folder.join("all.toml"), &all).unwrap();
        let data = if args[0] == "--data" { 2 } else { 1 };
        let again = [&args[..data], &["--config", "all.toml"]].concat();
        assert_eq!(printed(folder, &again), all, "{args:?}");
    }
    // Steps hold for any other pairs, too: without epochs, which would win.
    let all = printed(folder, &of_steps);
    assert!(!all.contains("epochs = "), "{all}");
    check_line(&all, "steps = 8000");
}

#[test]
fn what_is_no_setting_is_an_error_with_its_line() {
    let error = error_of("hidden = 3\nhiden = 4\n");
    assert!(
        error.starts_with("error: x.toml:2: expected settings of `seq2seq train`"),
        "{error}"
    );
    assert!(error.contains("unknown field `hiden`"), "{error}");
    for (text, part) in [
        ("hidden = \"many\"", "x.toml:1: expected settings"),
        ("\nhidden = 3\nhidden = 4\n", "x.toml:3: expected settings"),
        ("cell = \"rnn\"", "expected `gru` or `lstm`"),
        (
            "columns = \"2,1\"",
            "--columns: expected --data, found a task",
        ),
        (
            "heads = 2",
            "--heads: expected --model transformer, found --model rnn",
        ),
        (
            "layers = 0",
            "the number of layers: expected at least 1, found 0",
        ),
    ] {
        let error = error_of(text);
        assert!(
            error.contains(part) && error.lines().count() == 1,
            "{error}"
        );
    }
}

#[test]
fn the_greatest_seed_is_printed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let seed = u64::MAX.to_string();
    let all = printed(folder, &["copy", "--seed", &seed]);
    check_line(&all, &format!("seed = {seed}"));
    fs::write(folder.join("all.toml"), &all).unwrap();
    assert_eq!(printed(folder, &["copy", "--config", "all.toml"]), all);
}

#[test]
fn a_later_layer_says_how_long_to_train() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let of_task = ["copy", "--train-pairs", "100", "--batch-size", "10"];
    let length = |args: &[&str]| -> String {
        let printed = printed(folder, &[&of_task, args].concat());
        let is_length = |line: &&str| line.starts_with("epochs = ") || line.starts_with("steps = ");
        printed.lines().filter(is_length).collect()
    };
    assert_eq!(length(&["--steps", "41"]), "steps = 41");
    fs::write(folder.join("x.toml"), "steps = 80\n").unwrap();
    assert_eq!(length(&["--config", "x.toml"]), "steps = 80");
    let both = ["--config", "x.toml", "--epochs", "2"];
    assert_eq!(length(&both), "epochs = 2");
    // A preset of 16 epochs.
    assert_eq!(length(&["--preset", "g2p", "--steps", "30"]), "steps = 30");
}

#[test]
fn a_preset_says_what_it_sets() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = ["--train-pairs", "16", "--valid-pairs", "4", "--hidden", "8"];
    let args = ["train", "copy", "--preset", "dates", "--epochs", "1"];
    let stdout = succeed(folder.path(), &[&args[..], &tiny].concat());
    assert!(stdout.contains("\npreset dates: "), "{stdout}");
}

#[test]
fn bleu_is_no_figure_to_select_by_where_targets_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = |target: &str| format!("a b\t{target}\nb a\tb a\n").repeat(9);
    for (target, valid) in [("a b c d", "a b c"), ("a b", "b")] {
        std::fs::write(folder.join("train.tsv"), lines(target)).unwrap();
        std::fs::write(folder.join("valid.tsv"), lines(valid)).unwrap();
        let args = "train --data train.tsv --valid valid.tsv --source-tokens spaces --target-tokens spaces \
                    --hidden 4 --epochs 1 --out run --select bleu";
        let message = "select by BLEU: expected at least 4 tokens";
        fail(
            folder,
            &args.split_whitespace().collect::<Vec<_>>(),
            message,
        );
        assert!(!folder.join("run").exists());
    }
}

#[test]
fn bleu_is_counted_where_training_selects_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = ["--train-pairs", "16", "--valid-pairs", "4", "--hidden", "8"];
    let args = ["train", "copy", "--epochs", "1", "--select", "bleu"];
    let stdout = succeed(folder.path(), &[&args[..], &tiny].concat());
    let epoch = stdout.lines().find(|line| line.starts_with("epoch  1/1"));
    let valid = epoch.unwrap().split_once("valid: ").unwrap().1;
    assert!(
        valid.contains("BLEU ") && !epoch.unwrap().contains("BLEU 0.00  |"),
        "{stdout}"
    );
}

#[test]
fn a_training_whose_time_is_over_says_so_and_goes_on_with_more() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Before the first step of the second epoch, if not within the first.
    let args = ["train", "copy", "--train-pairs", "64", "--valid-pairs", "8"];
    let tiny = ["--batch-size", "8", "--hidden", "8", "--epochs", "40"];
    let limit = ["--max-time", "0.000001", "--out", "run"];
    let stdout = succeed(folder, &[&args[..], &tiny, &limit].concat());
    assert!(stdout.contains("stopped: the time is over"), "{stdout}");
    let resume = ["train", "--resume", "--out", "run", "--json", "--max-time"];
    let stdout = succeed(folder, &[&resume[..], &["0.000001"]].concat());
    assert!(stdout.contains(r#""reason":"time""#), "{stdout}");
    let stdout = succeed(folder, &[&resume[..], &["10", "--patience", "40"]].concat());
    assert!(stdout.contains(r#""reason":"last_epoch""#), "{stdout}");
}
