//! Reports of evaluations.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{assert_near, data_of, list, number};
use crate::program::{self, succeed, train_args, trained, written};

#[test]
fn a_report_has_the_figures_and_the_worst_sources_of_an_evaluation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let file = file.to_str().unwrap();
    let run = trained().0.parent().unwrap();
    let args = ["eval", "--model", "run", "--threads", "1"];
    let all = ["--errors", "100", "--format", "json"];
    let all: Value = serde_json::from_str(&succeed(run, &[&args[..], &all].concat())).unwrap();
    let report = [&args[..], &["--report", file, "--report-items", "4"]].concat();
    let stdout = succeed(run, &report);
    let last = stdout.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("saved {file}: 4 of 10 sources, ")) && last.ends_with(" kB"),
        "{last}"
    );
    let data = data_of(Path::new(file));
    assert_eq!(data["evaluated"], 10);
    let figures = list(&data["models"][0]["figures"]);
    for (name, expected) in [
        ("Exact match", "exact_match"),
        ("Sequence error rate", "sequence_error_rate"),
        ("Token error rate", "token_error_rate"),
    ] {
        let figure = figures
            .iter()
            .find(|figure| figure["name"] == name)
            .unwrap();
        assert_near(
            number(&figure["value"]),
            100.0 * number(&all[expected]),
            1e-9,
        );
        let interval = &all["intervals"][expected];
        assert_eq!(figure["interval"].is_null(), interval.is_null());
        if !interval.is_null() {
            assert_near(
                number(&figure["interval"][1]),
                100.0 * number(&interval[1]),
                1e-9,
            );
        }
    }
    let items = list(&data["items"]);
    assert_eq!(items.len(), 4);
    let mut before = (u64::MAX, f64::NEG_INFINITY);
    for item in items {
        let explanation = &item["explanations"][0];
        let output = &explanation["outputs"][explanation["greedy"].as_u64().unwrap() as usize];
        let difference = &output["difference"];
        let wrong = list(&all["errors"])
            .iter()
            .find(|it| it["source"] == explanation["source"])
            .unwrap();
        assert_eq!(
            [&output["text"], &difference["reference"]],
            [&wrong["output"], &wrong["reference"]]
        );
        assert_eq!(
            [&difference["edits"], &difference["steps"]],
            [&wrong["edits"], &wrong["alignment"]]
        );
        assert_eq!(item["references"], serde_json::json!([wrong["reference"]]));
        // The most edits first, then the least probable.
        let rank = (
            difference["edits"].as_u64().unwrap(),
            number(&output["log_probability"]),
        );
        assert!(
            rank.0 < before.0 || rank.0 == before.0 && rank.1 >= before.1,
            "{before:?} {rank:?}"
        );
        before = rank;
        assert_eq!(
            list(&output["steps"])[0]["alternatives"]
                .as_array()
                .unwrap()
                .len(),
            5
        );
    }
    let worst = list(&all["errors"])
        .iter()
        .map(|it| it["edits"].as_u64().unwrap());
    let worst: Vec<u64> = worst.take(4).collect();
    let listed = |item: &Value| {
        let explanation = &item["explanations"][0];
        let greedy = explanation["greedy"].as_u64().unwrap() as usize;
        explanation["outputs"][greedy]["difference"]["edits"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(items.iter().map(listed).collect::<Vec<_>>(), worst);
    // More than there are, and figures alone on the standard output.
    let report = [
        &args[..],
        &["--report", file, "--report-items", "99", "--format", "json"],
    ]
    .concat();
    let output = program::run(run, &report);
    let [stdout, stderr] = written(&report, &output, 0);
    assert_eq!(
        serde_json::from_str::<Value>(&stdout).unwrap()["sources"],
        10
    );
    assert!(
        stderr.starts_with(&format!("saved {file}: 10 of 10 sources")),
        "{stderr}"
    );
    assert_eq!(list(&data_of(Path::new(file))["items"]).len(), 10);
}

#[test]
fn a_report_compares_two_models_and_an_ensemble_has_no_attention() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (out, epochs) in [("a", "1"), ("b", "3")] {
        succeed(
            folder,
            &train_args("reverse", epochs, &["--out", out, "--seed", "1"]),
        );
    }
    let both = ["--report", "x.html", "--compare", "b"];
    let stdout = succeed(folder, &[&["eval", "--model", "a"], &both[..]].concat());
    let of_b = succeed(folder, &["eval", "--model", "b"]);
    assert!(
        stdout.contains(&format!("\ncompared with b:\n{of_b}saved x.html: ")),
        "{stdout}"
    );
    let data = data_of(&folder.join("x.html"));
    let items = list(&data["items"]);
    assert_eq!(items.len(), 10);
    let edits = |item: &Value| -> u64 {
        let of_models = list(&item["explanations"]).iter().map(|explanation| {
            let greedy = explanation["greedy"].as_u64().unwrap() as usize;
            explanation["outputs"][greedy]["difference"]["edits"]
                .as_u64()
                .unwrap()
        });
        of_models.sum()
    };
    let all: Vec<u64> = items.iter().map(edits).collect();
    assert!(all.is_sorted_by(|a, b| a >= b), "{all:?}");

    let json = ["eval", "--model", "a", "--format", "json"];
    let stdout = program::run(folder, &[&json[..], &both].concat());
    let figures: Value = serde_json::from_slice(&stdout.stdout).unwrap();
    let of_b: Value = serde_json::from_str(&succeed(
        folder,
        &["eval", "--model", "b", "--format", "json"],
    ))
    .unwrap();
    assert_eq!(figures["compared"], of_b);

    let ensemble = ["eval", "--model", "a", "--model", "b", "--report", "y.html"];
    succeed(folder, &ensemble);
    let data = data_of(&folder.join("y.html"));
    assert_eq!(data["models"][0]["name"], "a + b");
    assert_eq!(data["models"][0]["description"], "ensemble");
    let output = &data["items"][0]["explanations"][0]["outputs"][0];
    assert_eq!(output["attention"], Value::Null);
    assert!(output["occlusion"]["output"].is_array());
}

#[test]
fn a_source_of_unknown_tokens_alone_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines: String = (0..40).map(|at| format!("{at:04b}\t{at:02o}\n")).collect();
    fs::write(folder.join("train.tsv"), lines).unwrap();
    fs::write(folder.join("valid.tsv"), "10z\t9\nzz\t1\n").unwrap();
    let args = "train --data train.tsv --valid valid.tsv --out run --hidden 8 --embedding 4 --epochs 1 --threads 1";
    succeed(folder, &args.split_whitespace().collect::<Vec<_>>());
    let args = ["eval", "--model", "run", "--report", "x.html", "--unknown"];
    succeed(folder, &[&args[..], &["skip"]].concat());
    let of_source = |source: &str| {
        let data = data_of(&folder.join("x.html"));
        let mut items = list(&data["items"])
            .iter()
            .map(|item| item["explanations"][0].clone());
        items.find(|it| it["source"] == source).unwrap()
    };
    let nothing = of_source("zz");
    assert_eq!(nothing["tokens"], serde_json::json!([]));
    let output = &nothing["outputs"][0];
    assert_eq!(
        [&output["text"], &output["log_probability"]],
        [&Value::from(""), &Value::Null]
    );
    assert_eq!(output["difference"]["edits"], 1);
    assert_eq!(of_source("10z")["tokens"], serde_json::json!(["1", "0"]));
    succeed(folder, &[&args[..], &["unk"]].concat());
    assert_eq!(
        of_source("10z")["is_known"],
        serde_json::json!([true, true, false])
    );
}
