//! A run from its first epoch to its last, and the commands on its model.

use std::fs;
use std::path::Path;

use attention_tests::assert_says;

use crate::json::{list, number};
use crate::program::{
    self, Folder, assert_starts, command, copied, ended, epochs, fail, files, first_line, good,
    misuse, resume_args, succeed, train_args, trained, translate_lines,
};

#[test]
fn training_leaves_a_whole_run() {
    let (run, stdout) = trained();
    let expected = "attention.svg checkpoint/model-1.bpk checkpoint/model-2.bpk checkpoint/optim-1.bpk \
                    checkpoint/optim-2.bpk lock run.json";
    assert_eq!(files(run).join(" "), expected);
    assert_eq!(epochs(stdout), ["1/2", "2/2"]);
    check_kept_model(run, stdout);
    let start = "64 training pairs, 10 validation pairs; 30 source and 30 target tokens;";
    assert_starts(stdout, start);
    let manifest = program::manifest(run);
    let history = list(&manifest["history"]);
    assert_eq!((history.len(), &history[1]["epoch"]), (2, &2.into()));
    assert!(number(&history[1]["valid"]["loss"]) > 0.0);
    let config = &manifest["settings"];
    assert_eq!(config["model"]["hidden_size"], 8);
    assert_eq!(config["data"]["task"]["train"], 64);
    assert_eq!(config["attention"], "additive");
    let picture = fs::read_to_string(run.join("attention.svg")).unwrap();
    assert_says(&picture, "</svg>");
}

/// The model is the checkpoint that the program names.
#[track_caller]
fn check_kept_model(run: &Path, stdout: &str) {
    let (_, rest) = stdout.split_once("the model of epoch ").unwrap();
    let (epoch, _) = rest.split_once(',').unwrap();
    let file = run.join(format!("checkpoint/model-{epoch}.bpk"));
    assert_eq!(program::model_file(run), file, "{stdout}");
    let last = *epochs(stdout).last().unwrap();
    let is_last = last.starts_with(&format!("{epoch}/"));
    let epoch: usize = epoch.parse().unwrap();
    let advice = format!("`--resume --epochs {}` goes on", 2 * epoch);
    assert_eq!(stdout.contains(&advice), is_last, "{stdout}");
}

#[test]
fn texts_are_translated_from_arguments_and_from_lines() {
    let (run, _) = trained();
    let args = "translate --model . abc zyxwvut e";
    let stdout = succeed(run, args);
    assert_eq!(stdout.lines().count(), 3);

    // Outputs stay in line with inputs, that may end as on Windows; the last one need not end.
    let output = translate_lines(run, b"abc\r\n\n   \nzyxwvut\ne");
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.splice(1..1, ["", ""]);
    assert_eq!(good(args, output).lines().collect::<Vec<_>>(), lines);
    let nothing = succeed(run, "translate --model .");
    assert_eq!(nothing, "", "no lines, no output");
}

#[test]
fn an_evaluation_repeats_the_figures_of_training() {
    let (run, stdout) = trained();
    let evaluation = succeed(run, "eval --model .");
    let first = first_line(&evaluation);
    assert_starts(first, "10 sources: exact match ");
    assert!(stdout.contains(first), "{first} is not in {stdout}");
}

#[test]
fn attention_is_drawn_and_saved() {
    let (run, _) = trained();
    let folder = &Folder::new();
    for (name, start) in [
        ("x.png", &b"\x89PNG"[..]),
        ("x.svg", b"<svg"),
        ("x.html", b"<!DOCTYPE html>"),
    ] {
        let file = folder.join(name);
        let file = file.to_str().unwrap();
        let stdout = succeed(run, &["attend", "cab", "--model", ".", "--output", file]);
        assert_says(&stdout, "c a b");
        assert_starts(&stdout, &succeed(run, "translate cab --model ."));
        assert!(stdout.ends_with(&format!("saved {file}\n")), "{stdout}");
        let bytes = fs::read(file).unwrap();
        let head = &bytes[..start.len()];
        assert!(head.eq_ignore_ascii_case(start), "{name}: {head:?}");
    }
    assert_eq!(files(folder).len(), 3);
}

#[test]
fn signs_that_the_font_of_a_bitmap_lacks_are_counted() {
    let folder = &Folder::new();
    let pairs = ["日本\tnippon\n", "本\thon\n", "日\tnichi\n", "日日\thibi\n"].concat();
    folder.write("pairs.tsv", &pairs);
    folder.write("valid.tsv", pairs);
    let args = "train --data pairs.tsv --valid valid.tsv --epochs 1 --hidden 4 --embedding 4 --threads 1 --out run";
    succeed(folder, args);
    for (output, lacks) in [("x.png", 1), ("x.svg", 0)] {
        let args = ["attend", "日本日", "--model", "run", "--output", output];
        let [_, stderr] = program::ended(folder, &args, 0);
        let note = "note: the font of x.png lacks 2 signs, which are boxes there;";
        assert_eq!(stderr.matches(note).count(), lacks, "{stderr}");
    }
}

#[test]
fn a_picture_has_a_bound_and_plain_text_is_ascii_where_asked_for() {
    let (run, _) = trained();
    let long = "abc".repeat(2_000);
    let args = format!("attend {long} --model . --output x.html");
    let message =
        "the picture x.html: expected at most 100000 weights, tokens in times tokens out, found ";
    fail(run, &args, message);
    let attend = "attend cab --model .";
    let [plain, shaded] = ["C", "C.UTF-8"].map(|locale| {
        let output = command(run, attend).env("LC_ALL", locale).output();
        good(attend, output.unwrap())
    });
    assert!(plain.is_ascii() && plain.contains("##"), "{plain}");
    assert_says(&shaded, "██");
}

#[test]
fn a_finished_run_goes_on_only_to_more_epochs() {
    let (folder, run) = &copied();
    let model = || program::model_file(run);
    let before = model();
    let args = |epochs| resume_args(epochs, "--threads 1");
    let stdout = succeed(folder, &args("2"));
    assert!(epochs(&stdout).is_empty(), "{stdout}");
    assert_eq!(model(), before, "another model is kept");

    let stdout = succeed(folder, &args("4"));
    assert_eq!(epochs(&stdout), ["3/4", "4/4"]);
    assert!(run.join("checkpoint/model-4.bpk").exists());
    assert_eq!(program::manifest(run)["settings"]["train"]["epochs"], 4);
    check_kept_model(run, &stdout);
    succeed(folder, "translate --model run abc");

    // The data may be named again, but other data is a mistake.
    let other = format!("{} copy", args("5"));
    let message = "the run in run: expected to go on with its task reverse, found task copy";
    fail(folder, &other, message);
    let same = format!("{} reverse", args("5"));
    assert_eq!(epochs(&succeed(folder, &same)), ["5/5"]);
}

#[test]
fn a_run_goes_on_with_its_own_settings() {
    let (folder, run) = &copied();
    let resume = "train --resume --out run --threads 1";
    let before = fs::read(run.join("run.json")).unwrap();
    let all = "--hidden 64|--seed 99|--attention dot|--cell lstm|--batch-size 7|--clip 2|--dropout 0.1|\
               --unidirectional|--train-pairs 65|--model rnn|--heads 2|--feed-forward 9|--warmup 7";
    for kept in all.split('|') {
        let [_, stderr] = ended(folder, &format!("{resume} {kept}"), 2);
        assert!(stderr.contains("cannot be used with"), "{kept}: {stderr}");
        let option = kept.split(' ').next().unwrap();
        assert!(stderr.contains(option), "{kept}: {stderr}");
    }
    let bad = format!("{resume} --learning-rate 2");
    fail(folder, &bad, "the learning rate: expected more than 0");
    assert!(fs::read(run.join("run.json")).unwrap() == before);

    let changed = format!("{resume} --epochs 3 --learning-rate 0.001 --patience 5");
    assert_eq!(epochs(&succeed(folder, &changed)), ["3/3"]);
    let settings = &program::manifest(run)["settings"]["train"];
    assert_eq!(settings["learning_rate"], 0.001);
    assert_eq!(settings["patience"], 5);
}

#[test]
fn a_run_is_overwritten_only_when_asked_to() {
    let (folder, run) = &copied();
    let read = |file: &String| fs::read(run.join(file)).unwrap();
    let content = || files(run).iter().map(read).collect::<Vec<_>>();
    let before = content();
    let message = "the folder run: expected a folder without a run (name another with --out, or add --resume or \
                   --overwrite)";
    let args = train_args("copy", "1", "--out run");
    fail(folder, &args, message);
    assert!(before == content(), "the run was touched");

    let args = train_args("copy", "1", "--out run --overwrite");
    assert_eq!(epochs(&succeed(folder, &args)), ["1/1"]);
    assert!(!run.join("checkpoint/model-2.bpk").exists());
    let manifest = program::manifest(run);
    assert_eq!(manifest["settings"]["data"]["task"]["task"], "copy");
    succeed(folder, "translate --model run abc");

    misuse("train --resume --overwrite", "cannot be used with");
}

#[test]
fn a_model_of_lstms_is_trained_resumed_and_used() {
    let folder = &Folder::new();
    let args = train_args("reverse", "1", "--cell lstm --out run");
    assert_eq!(epochs(&succeed(folder, &args)), ["1/1"]);
    let manifest = program::manifest(&folder.join("run"));
    assert_eq!(manifest["settings"]["model"]["cell"], "Lstm");
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);
    succeed(folder, "translate --model run abc");

    misuse("train --cell rnn", "[possible values: gru, lstm]");
}

#[test]
fn a_closed_output_stops_nothing() {
    let folder = &Folder::new();
    for args in [
        &train_args("reverse", "1", "--out run")[..],
        "eval --model run",
        "attend abc --model run",
        "translate abc cab --model run",
        "--help",
    ] {
        let mut child = command(folder, args).spawn().unwrap();
        drop(child.stdout.take());
        good(args, child.wait_with_output().unwrap());
    }
    assert!(folder.join("run/checkpoint/model-1.bpk").exists());
}
