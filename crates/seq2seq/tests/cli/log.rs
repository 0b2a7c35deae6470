//! The log of a training: as JSON, or none.

use std::fs;

use attention_tests::assert_says;

use crate::divergence;
use crate::json::{lines, number, string};
use crate::program::{
    Folder, copied, ended, manifest, misuse, model_file, resume_args, succeed, train_args,
};

#[test]
fn json_has_an_object_for_each_event() {
    let folder = &Folder::new();
    let args = train_args("reverse", "2", "--out run --json");
    let events = lines(&succeed(folder, &args));
    let names: Vec<&str> = events.iter().map(|it| string(&it["event"])).collect();
    assert_eq!(names, ["prepared", "started", "epoch", "epoch", "ended"]);
    let run = manifest(&folder.join("run"));
    let [prepared, started, _, second, ended] = events.try_into().unwrap();
    assert_eq!(prepared["settings"], run["settings"]);
    assert_eq!(prepared["folder"], "run");
    assert_eq!([&started["trained"], &started["epochs"]], [0, 2]);
    for side in ["train", "valid"] {
        assert_eq!(second[side], run["history"][1][side]);
    }
    assert_eq!([&second["epoch"], &second["epochs"]], [2, 2]);
    assert_eq!(ended["reason"], "last_epoch");
    assert_eq!(ended["model"], run["model"]);
    assert_eq!(ended["valid"]["sources"], 10);
    let evaluation = succeed(folder, "eval --model run");
    for (name, figure) in [
        ("exact match", "exact_match"),
        ("sequence error rate", "sequence_errors"),
        ("token error rate", "token_errors"),
    ] {
        let figure = number(&ended["valid"][figure]);
        assert_says(&evaluation, &format!("{name} {figure:.2} %"));
    }
}

#[test]
fn a_training_that_goes_on_and_stops_early_says_so() {
    let (folder, _) = &copied();
    let args = resume_args("40", "--threads 1 --json --patience 1 --learning-rate 1");
    let events = lines(&succeed(folder, &args));
    let started = &events[1];
    assert_eq!([&started["trained"], &started["epochs"]], [2, 40]);
    assert_eq!(events.last().unwrap()["reason"], "patience");
}

#[test]
fn a_refused_step_is_an_event_and_a_note() {
    let folder = &Folder::new();
    divergence::train(folder, 1, Some("q"));
    for (epochs, log) in [("3", "--json"), ("4", "--quiet")] {
        let args = resume_args(epochs, &format!("--threads 1 {log}"));
        let [stdout, stderr] = ended(folder, &args, 0);
        let is_note = |line: &&str| line.starts_with("note: refused step ");
        let notes = stderr.lines().filter(is_note).count();
        assert!(notes > 0, "{stderr}");
        let mut refused = lines(&stdout);
        refused.retain(|it| it["event"] == "step_refused");
        let expected = if log == "--json" { notes } else { 0 };
        assert_eq!(refused.len(), expected, "{stdout}");
        for event in refused {
            let is_whole = event["steps"] == 32 && event["reason"].is_string();
            assert!(is_whole, "{event}");
        }
    }
}

#[test]
fn quiet_is_silent_and_trains_the_same() {
    let folder = &Folder::new();
    for (others, is_silent) in [("--out said", false), ("--out unsaid --quiet", true)] {
        let [stdout, _] = ended(folder, &train_args("reverse", "1", others), 0);
        assert_eq!(stdout.is_empty(), is_silent, "{stdout}");
    }
    let [said, unsaid] = ["said", "unsaid"].map(|run| folder.join(run));
    assert_eq!(manifest(&said), manifest(&unsaid));
    let models = [&said, &unsaid].map(|run| fs::read(model_file(run)).unwrap());
    assert!(models[0] == models[1]);
    assert!(unsaid.join("attention.svg").exists());
}

#[test]
fn json_and_quiet_exclude_each_other() {
    misuse("train reverse --json --quiet", "cannot be used with");
}
