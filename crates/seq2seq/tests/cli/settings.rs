//! Settings of a training from a file, a preset and the command line.

use std::path::Path;

use attention_tests::assert_says;

use crate::program::{Folder, assert_starts, ended, fail, rows, succeed};

/// The settings that a training would have.
#[track_caller]
fn printed(folder: &Path, args: &str) -> String {
    succeed(folder, &format!("train --print-config {args}"))
}

#[track_caller]
fn check_line(printed: &str, line: &str) {
    assert!(printed.lines().any(|it| it == line), "{line}: {printed}");
}

/// The error of a file of settings, after its name.
fn error_of(text: &str) -> String {
    let folder = &Folder::new();
    folder.write("x.toml", text);
    let [_, stderr] = ended(folder, "train copy --config x.toml", 2);
    assert!(!folder.join("runs").exists());
    stderr.trim().to_string()
}

#[test]
fn the_command_line_wins_over_a_file_and_a_file_over_a_preset() {
    let folder = &Folder::new();
    let file = "hidden = 24\ndropout = 0.5\nunidirectional = true\n";
    folder.write("x.toml", file);
    let args = "--preset g2p --config x.toml --dropout 0.25";
    let all = printed(folder, args);
    let lines = "cell = \"lstm\"|hidden = 24|dropout = 0.25|unidirectional = true|seed = 0|train-pairs = 24000";
    for line in lines.split('|') {
        check_line(&all, line);
    }
    let all = printed(folder, &format!("{args} --unidirectional=false"));
    check_line(&all, "unidirectional = false");
    assert!(!folder.join("runs").exists());
}

#[test]
fn printed_settings_are_a_file_of_the_same_settings() {
    let folder = &Folder::new();
    folder.write("pairs.tsv", "a b\tx\tc d\nb\ty\td\nc\tz\te\n");
    let of_steps = "--train-pairs 7 --steps 8000";
    for (data, args) in [
        ("reverse", "--train-pairs 20 --clip 0.3"),
        ("--data pairs.tsv", "--columns 3,1 --cell lstm"),
        ("copy", "--model transformer --heads 2"),
        ("copy", of_steps),
    ] {
        let all = printed(folder, &format!("{data} {args}"));
        folder.write("all.toml", &all);
        let again = printed(folder, &format!("{data} --config all.toml"));
        assert_eq!(again, all, "{args}");
    }
    // Steps hold for any other pairs, too: without epochs, which would win.
    let all = printed(folder, &format!("copy {of_steps}"));
    assert!(!all.contains("epochs = "), "{all}");
    check_line(&all, "steps = 8000");
}

#[test]
fn what_is_no_setting_is_an_error_with_its_line() {
    let error = error_of("hidden = 3\nhiden = 4\n");
    let start = "error: x.toml:2: expected settings of `seq2seq train`";
    assert_starts(&error, start);
    assert_says(&error, "unknown field `hiden`");
    let error = error_of("\nhidden = 3\nhidden = 4\n");
    assert_says(&error, "x.toml:3: expected settings");
    let table = r#"
hidden = "many" | x.toml:1: expected settings
cell = "rnn" | expected `gru` or `lstm`
columns = "2,1" | --columns: expected --data, found a task
heads = 2 | --heads: expected --model transformer, found --model rnn
layers = 0 | the number of layers: expected at least 1, found 0
"#;
    for [text, part] in rows(table) {
        let error = error_of(text);
        let is_line = error.lines().count() == 1;
        assert!(is_line && error.contains(part), "{error}");
    }
}

#[test]
fn the_greatest_seed_is_printed_and_read() {
    let folder = &Folder::new();
    let all = printed(folder, &format!("copy --seed {}", u64::MAX));
    check_line(&all, &format!("seed = {}", u64::MAX));
    folder.write("all.toml", &all);
    assert_eq!(printed(folder, "copy --config all.toml"), all);
}

#[test]
fn a_later_layer_says_how_long_to_train() {
    let folder = &Folder::new();
    let length = |args: &str| -> String {
        let args = format!("copy --train-pairs 100 --batch-size 10 {args}");
        let printed = printed(folder, &args);
        let is_length = |line: &&str| line.starts_with("epochs = ") || line.starts_with("steps = ");
        printed.lines().filter(is_length).collect()
    };
    assert_eq!(length("--steps 41"), "steps = 41");
    folder.write("x.toml", "steps = 80\n");
    assert_eq!(length("--config x.toml"), "steps = 80");
    assert_eq!(length("--config x.toml --epochs 2"), "epochs = 2");
    // A preset of 16 epochs.
    assert_eq!(length("--preset g2p --steps 30"), "steps = 30");
}

#[test]
fn a_preset_says_what_it_sets() {
    let folder = &Folder::new();
    let args = "train copy --preset dates --epochs 1 --train-pairs 16 --valid-pairs 4 --hidden 8";
    assert_says(succeed(folder, args), "\npreset dates: ");
}

#[test]
fn bleu_is_no_figure_to_select_by_where_targets_are_short() {
    let folder = &Folder::new();
    let lines = |target: &str| format!("a b\t{target}\nb a\tb a\n").repeat(9);
    for (target, valid) in [("a b c d", "a b c"), ("a b", "b")] {
        folder.write("train.tsv", lines(target));
        folder.write("valid.tsv", lines(valid));
        let args = "train --data train.tsv --valid valid.tsv --source-tokens spaces --target-tokens spaces \
                    --hidden 4 --epochs 1 --out run --select bleu";
        fail(folder, args, "select by BLEU: expected at least 4 tokens");
        assert!(!folder.join("run").exists());
    }
}

#[test]
fn bleu_is_counted_where_training_selects_by_it() {
    let folder = &Folder::new();
    let args = "train copy --epochs 1 --select bleu --train-pairs 16 --valid-pairs 4 --hidden 8";
    let stdout = succeed(folder, args);
    let epoch = stdout.lines().find(|line| line.starts_with("epoch  1/1"));
    let (train, valid) = epoch.unwrap().split_once("valid: ").unwrap();
    let holds = valid.contains("BLEU ") && !train.contains("BLEU 0.00  |");
    assert!(holds, "{stdout}");
}

#[test]
fn a_training_whose_time_is_over_says_so_and_goes_on_with_more() {
    let folder = &Folder::new();
    // Before the first step of the second epoch, if not within the first.
    let args = "train copy --train-pairs 64 --valid-pairs 8 --batch-size 8 --hidden 8 --epochs 40 --max-time 0.000001 \
                --out run";
    let stdout = succeed(folder, args);
    assert_says(&stdout, "stopped: the time is over");
    let resume = "train --resume --out run --json --max-time";
    let stdout = succeed(folder, &format!("{resume} 0.000001"));
    assert_says(&stdout, r#""reason":"time""#);
    let stdout = succeed(folder, &format!("{resume} 10 --patience 40"));
    assert_says(&stdout, r#""reason":"last_epoch""#);
}
