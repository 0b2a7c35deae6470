//! The log of a training: as JSON, or none.

use std::fs;

use serde_json::Value;

use crate::divergence;
use crate::program::{
    Folder, copied, ended, manifest, model_file, resume_args, run_with_usage_error, succeed,
    train_args,
};

fn events(stdout: &str) -> Vec<Value> {
    let events = stdout.lines().map(serde_json::from_str);
    events.collect::<Result<_, _>>().unwrap()
}

#[test]
fn json_has_an_object_for_each_event() {
    let folder = &Folder::new();
    let args = train_args("reverse", "2", "--out run --json");
    let events = events(&succeed(folder, &args));
    let names = events.iter().map(|it| it["event"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert_eq!(names, ["prepared", "started", "epoch", "epoch", "ended"]);
    let run = manifest(&folder.join("run"));
    let [prepared, started, _, second, ended] = events.try_into().unwrap();
    assert_eq!(prepared["settings"], run["settings"]);
    assert_eq!(prepared["folder"], "run");
    let expected = (&0.into(), &2.into());
    assert_eq!((&started["trained"], &started["epochs"]), expected);
    for side in ["train", "valid"] {
        assert_eq!(second[side], run["history"][1][side]);
    }
    let expected = (&2.into(), &2.into());
    assert_eq!((&second["epoch"], &second["epochs"]), expected);
    assert_eq!(ended["reason"], "last_epoch");
    assert_eq!(ended["model"], run["model"]);
    assert_eq!(ended["valid"]["sources"], 10);
    let evaluation = succeed(folder, "eval --model run");
    for (name, figure) in [
        ("exact match", "exact_match"),
        ("sequence error rate", "sequence_errors"),
        ("token error rate", "token_errors"),
    ] {
        let figure = ended["valid"][figure].as_f64().unwrap();
        let figure = format!("{name} {figure:.2} %");
        assert!(evaluation.contains(&figure), "{figure}: {evaluation}");
    }
}

#[test]
fn a_training_that_goes_on_and_stops_early_says_so() {
    let (folder, _) = copied();
    let args = resume_args("40", "--threads 1 --json --patience 1 --learning-rate 1");
    let events = events(&succeed(folder.path(), &args));
    let started = &events[1];
    let expected = (&2.into(), &40.into());
    assert_eq!((&started["trained"], &started["epochs"]), expected);
    assert_eq!(events.last().unwrap()["reason"], "patience");
}

#[test]
fn a_refused_step_is_an_event_and_a_note() {
    let folder = &Folder::new();
    divergence::train(folder, 1, Some("q"));
    for (epochs, log) in [("3", "--json"), ("4", "--quiet")] {
        let args = resume_args(epochs, &format!("--threads 1 {log}"));
        let [stdout, stderr] = ended(folder, &args, 0);
        let notes = stderr.lines();
        let notes = notes.filter(|line| line.starts_with("note: refused step "));
        let notes = notes.count();
        assert!(notes > 0, "{stderr}");
        let mut refused = events(&stdout);
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
    let folder = tempfile::tempdir().unwrap();
    let stderr = run_with_usage_error(folder.path(), "train reverse --json --quiet");
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}
