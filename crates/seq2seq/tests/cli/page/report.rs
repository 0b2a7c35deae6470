//! Reports of evaluations.

use std::path::Path;

use serde_json::Value;

use attention_tests::assert_says;

use super::{assert_near, data_of};
use crate::json::{greedy, line, list, number};
use crate::program::{
    Folder, assert_starts, ended, number_pairs, succeed, train_args, train_on, trained,
};

/// Its edits.
fn edits(explanation: &Value) -> u64 {
    greedy(explanation)["difference"]["edits"].as_u64().unwrap()
}

#[test]
fn a_report_has_the_figures_and_the_worst_sources_of_an_evaluation() {
    let folder = &Folder::new();
    let file = folder.join("report.html");
    let file = file.to_str().unwrap();
    let run = trained().0.parent().unwrap();
    let args = "eval --model run --threads 1";
    let all = line(&succeed(run, &format!("{args} --errors 100 --format json")));
    let report = format!("{args} --report {file} --report-items");
    let stdout = succeed(run, &format!("{report} 4"));
    let last = stdout.lines().last().unwrap();
    let start = format!("saved {file}: 4 of 10 sources, ");
    assert!(last.starts_with(&start) && last.ends_with(" kB"), "{last}");
    let data = data_of(Path::new(file));
    assert_eq!(data["evaluated"], 10);
    let figures = list(&data["models"][0]["figures"]);
    for (name, expected) in [
        ("Exact match", "exact_match"),
        ("Sequence error rate", "sequence_error_rate"),
        ("Token error rate", "token_error_rate"),
    ] {
        let mut figures = figures.iter();
        let figure = figures.find(|figure| figure["name"] == name).unwrap();
        let percent = |value: &Value| 100.0 * number(value);
        assert_near(number(&figure["value"]), percent(&all[expected]), 1e-9);
        let interval = &all["intervals"][expected];
        assert_eq!(figure["interval"].is_null(), interval.is_null());
        if !interval.is_null() {
            assert_near(number(&figure["interval"][1]), percent(&interval[1]), 1e-9);
        }
    }
    let items = list(&data["items"]);
    assert_eq!(items.len(), 4);
    let mut before = (u64::MAX, f64::NEG_INFINITY);
    for item in items {
        let explanation = &item["explanations"][0];
        let output = greedy(explanation);
        let difference = &output["difference"];
        let mut errors = list(&all["errors"]).iter();
        let wrong = errors.find(|it| it["source"] == explanation["source"]);
        let wrong = wrong.unwrap();
        assert_eq!(output["text"], wrong["output"]);
        assert_eq!(difference["reference"], wrong["reference"]);
        assert_eq!(difference["edits"], wrong["edits"]);
        assert_eq!(difference["steps"], wrong["alignment"]);
        assert_eq!(item["references"], serde_json::json!([wrong["reference"]]));
        // The most edits first, then the least probable.
        let rank = (edits(explanation), number(&output["log_probability"]));
        let is_after = rank.0 < before.0 || rank.0 == before.0 && rank.1 >= before.1;
        assert!(is_after, "{before:?} {rank:?}");
        before = rank;
        assert_eq!(list(&output["steps"][0]["alternatives"]).len(), 5);
    }
    let worst = list(&all["errors"]).iter().map(|it| &it["edits"]);
    let listed = items.iter().map(|it| edits(&it["explanations"][0]));
    assert!(listed.eq(worst.take(4).map(|it| it.as_u64().unwrap())));
    // More than there are, and figures alone on the standard output.
    let [stdout, stderr] = ended(run, &format!("{report} 99 --format json"), 0);
    assert_eq!(line(&stdout)["sources"], 10);
    assert_starts(&stderr, &format!("saved {file}: 10 of 10 sources"));
    assert_eq!(list(&data_of(Path::new(file))["items"]).len(), 10);
}

#[test]
fn a_report_compares_two_models_and_an_ensemble_has_no_attention() {
    let folder = &Folder::new();
    for (out, epochs) in [("a", "1"), ("b", "3")] {
        let others = format!("--out {out} --seed 1");
        succeed(folder, &train_args("reverse", epochs, &others));
    }
    let both = "eval --model a --report x.html --compare b";
    let stdout = succeed(folder, both);
    let of_b = succeed(folder, "eval --model b");
    let compared = format!("\ncompared with b:\n{of_b}saved x.html: ");
    assert_says(&stdout, &compared);
    let data = data_of(&folder.join("x.html"));
    let items = list(&data["items"]);
    assert_eq!(items.len(), 10);
    let of_item = |item: &Value| -> u64 { list(&item["explanations"]).iter().map(edits).sum() };
    let all: Vec<u64> = items.iter().map(of_item).collect();
    assert!(all.is_sorted_by(|a, b| a >= b), "{all:?}");

    let [stdout, _] = ended(folder, &format!("{both} --format json"), 0);
    let of_b = succeed(folder, "eval --model b --format json");
    assert_eq!(line(&stdout)["compared"], line(&of_b));

    succeed(folder, "eval --model a --model b --report y.html");
    let data = data_of(&folder.join("y.html"));
    assert_eq!(data["models"][0]["name"], "a + b");
    assert_eq!(data["models"][0]["description"], "ensemble");
    let output = &data["items"][0]["explanations"][0]["outputs"][0];
    assert_eq!(output["attention"], Value::Null);
    assert!(output["occlusion"]["output"].is_array());
}

#[test]
fn a_source_of_unknown_tokens_alone_is_listed() {
    let folder = &Folder::new();
    train_on(folder, [&number_pairs(), "10z\t9\nzz\t1\n"], "");
    let args = "eval --model run --report x.html --unknown";
    succeed(folder, &format!("{args} skip"));
    let of_source = |source: &str| {
        let data = data_of(&folder.join("x.html"));
        let mut items = list(&data["items"]).iter();
        let found = items.find(|it| it["explanations"][0]["source"] == source);
        found.unwrap()["explanations"][0].clone()
    };
    let nothing = of_source("zz");
    assert_eq!(nothing["tokens"], serde_json::json!([]));
    let output = &nothing["outputs"][0];
    let expected = [&Value::from(""), &Value::Null];
    assert_eq!([&output["text"], &output["log_probability"]], expected);
    assert_eq!(output["difference"]["edits"], 1);
    assert_eq!(of_source("10z")["tokens"], serde_json::json!(["1", "0"]));
    succeed(folder, &format!("{args} unk"));
    let is_known = serde_json::json!([true, true, false]);
    assert_eq!(of_source("10z")["is_known"], is_known);
}
