//! Searches with beams, the formats of their outputs, alignments, dictionaries and scores.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{self, bad, fail, good, run_with_input, succeed, text, trained};

const SEARCH: [&str; 6] = ["--model", ".", "--beam", "4", "--n-best", "3"];

/// `translate` with these texts and arguments.
fn translate(run: &Path, texts: &[&str], args: &[&str]) -> String {
    succeed(run, &[&["translate"], texts, args].concat())
}

/// The objects of lines.
fn objects(lines: &str) -> Vec<Value> {
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn outputs(object: &Value) -> &[Value] {
    object["outputs"].as_array().unwrap()
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn all_formats_have_the_same_outputs() {
    let (run, _) = trained();
    let texts = ["abc", "zyxwvut", "e"];
    let plain = translate(run, &texts, &SEARCH);
    let tsv = translate(run, &texts, &[&SEARCH[..], &["--format", "tsv"]].concat());
    let jsonl = translate(run, &texts, &[&SEARCH[..], &["--format", "jsonl"]].concat());
    let objects = objects(&jsonl);
    assert_eq!(objects.len(), 3);
    let mut rows = tsv.lines();
    for ((line, object), source) in plain.lines().zip(&objects).zip(texts) {
        assert_eq!(object["source"], source);
        let outputs = outputs(object);
        let of_objects: Vec<&str> = outputs
            .iter()
            .map(|output| string(&output["text"]))
            .collect();
        assert_eq!(line.split('\t').collect::<Vec<_>>(), of_objects);
        assert_eq!(outputs.len(), 3);
        for output in outputs {
            let row: Vec<&str> = rows.next().unwrap().split('\t').collect();
            assert_eq!(row[..2], [source, string(&output["text"])]);
            let probability: f64 = row[2].parse().unwrap();
            assert_eq!(Some(probability), output["log_probability"].as_f64());
            assert_eq!(output["score"], output["log_probability"]);
            let tokens = output["tokens"].as_array().unwrap();
            assert_eq!(
                tokens.iter().map(string).collect::<String>(),
                string(&output["text"])
            );
            assert!(output["ended"].is_boolean());
            assert_eq!(output["by"], "model");
        }
    }
    assert_eq!(rows.next(), None);
    // The best one alone, and greedy search as a search of one.
    let best = ["--model", ".", "--beam", "4"];
    for (best, all) in translate(run, &texts, &best).lines().zip(plain.lines()) {
        assert_eq!(Some(best), all.split('\t').next());
    }
    let greedy = translate(run, &texts, &["--model", "."]);
    let scored = translate(run, &texts, &["--model", ".", "--format", "tsv"]);
    for (greedy, scored) in greedy.lines().zip(scored.lines()) {
        assert_eq!(Some(greedy), scored.split('\t').nth(1));
    }
}

#[test]
fn lines_are_searched_as_texts_in_batches_of_any_size() {
    let (run, _) = trained();
    let texts = ["abc", "zyxwvut", "e", "cab", "bca"];
    let args = [&SEARCH[..], &["--format", "jsonl"]].concat();
    let expected = translate(run, &texts, &args);
    let input = texts.join("\n");
    for size in ["1", "2", "300"] {
        let args = [&["translate"], &args[..], &["--batch-size", size]].concat();
        let output = run_with_input(run, &args, input.as_bytes());
        assert_eq!(good(&args, output), expected, "{size}");
    }
    fail(
        run,
        &["translate", "abc", "--model", ".", "--batch-size", "0"],
        "the batch size: expected at least 1, found 0",
    );
}

#[test]
fn lines_that_cannot_be_translated_stay_in_line() {
    let (run, _) = trained();
    let input = "abc\n\na?\u{e9}\ncab\n";
    for (format, empty) in [("text", ""), ("tsv", "")] {
        let args = ["translate", "--model", ".", "--format", format];
        let output = run_with_input(run, &args, input.as_bytes());
        let stdout = text(&output.stdout);
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines[1..3], [empty; 2], "{stdout}");
        assert_eq!(lines.len(), 4);
        bad(
            &args,
            output,
            "line 3 of the standard input: unknown token \"?\" at position 2; ",
        );
    }
    let args = ["translate", "--model", ".", "--format", "jsonl"];
    let output = run_with_input(run, &args, input.as_bytes());
    let objects = objects(&text(&output.stdout));
    let counts: Vec<usize> = objects.iter().map(|object| outputs(object).len()).collect();
    assert_eq!(counts, [1, 0, 0, 1]);
    assert_eq!(objects[2]["source"], "a?\u{e9}");
    assert!(string(&objects[2]["error"]).contains("unknown token \"?\""));
    assert!(objects[0].get("error").is_none());
}

#[test]
fn outputs_are_aligned_with_their_sources() {
    let (run, _) = trained();
    let args = |format: &'static str, form: &'static str| {
        [&SEARCH[..], &["--format", format, "--alignments", form]].concat()
    };
    let weights = objects(&translate(run, &["abc", "zyxw"], &args("jsonl", "json")));
    let links = objects(&translate(run, &["abc", "zyxw"], &args("jsonl", "pharaoh")));
    let columns = translate(run, &["abc", "zyxw"], &args("tsv", "pharaoh"));
    let columns: Vec<&str> = columns
        .lines()
        .map(|line| line.split('\t').nth(3).unwrap())
        .collect();
    let mut all = Vec::new();
    for (weights, links) in weights.iter().zip(&links) {
        for (output, linked) in outputs(weights).iter().zip(outputs(links)) {
            let alignment = &output["alignment"];
            let tokens = output["tokens"].as_array().unwrap();
            let rows = alignment["weights"].as_array().unwrap();
            // The end has weights, but no link.
            let ended = usize::from(output["ended"] == true);
            assert_eq!(rows.len(), tokens.len() + ended);
            assert_eq!(
                alignment["target"].as_array().unwrap()[..tokens.len()],
                tokens[..]
            );
            let expected = rows[..tokens.len()]
                .iter()
                .enumerate()
                .map(|(target, row)| {
                    let row: Vec<f64> = row
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|it| it.as_f64().unwrap())
                        .collect();
                    assert_eq!(row.len(), string(&weights["source"]).len());
                    assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
                    let best = (0..row.len())
                        .max_by(|&a, &b| row[a].total_cmp(&row[b]))
                        .unwrap();
                    format!("{best}-{target}")
                });
            let expected: Vec<String> = expected.collect();
            assert_eq!(string(&linked["alignment"]), expected.join(" "));
            all.push(expected.join(" "));
        }
    }
    assert_eq!(columns, all);
    let one = translate(run, &["abc"], &["--model", ".", "--alignments", "pharaoh"]);
    let (output, links) = one.trim_end_matches('\n').split_once('\t').unwrap();
    assert_eq!(
        links.split(' ').filter(|link| !link.is_empty()).count(),
        output.len()
    );
    fail(
        run,
        &[
            "translate",
            "abc",
            "--alignments",
            "json",
            "--model",
            ".",
            "--n-best",
            "2",
        ],
        "--alignments: expected --format tsv or jsonl, where sources may have several outputs, found --format text",
    );
}

#[test]
fn a_dictionary_comes_before_the_model() {
    let (run, _) = trained();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known.tsv");
    // A source that the model does not know, one with two targets, one of which comes twice.
    fs::write(&file, "?!\tab\nabc\tx\nabc\ty\nabc\tx\n").unwrap();
    let file = file.to_str().unwrap();
    let args = ["--model", ".", "--dictionary", file];
    let stdout = translate(run, &["?!", "abc", "cab"], &args);
    let by_model = translate(run, &["cab"], &["--model", "."]);
    assert_eq!(stdout, format!("ab\nx\n{by_model}"));
    let several = [
        &args[..],
        &["--n-best", "5", "--format", "jsonl", "--alignments", "json"],
    ]
    .concat();
    let all = objects(&translate(run, &["abc", "cab"], &several));
    let known: Vec<&str> = outputs(&all[0])
        .iter()
        .map(|output| string(&output["text"]))
        .collect();
    assert_eq!(known, ["x", "y"]);
    for (object, by) in all.iter().zip(["dictionary", "model"]) {
        for output in outputs(object) {
            assert_eq!(output["by"], by);
            assert_eq!(output["log_probability"].is_null(), by == "dictionary");
            assert_eq!(output.get("alignment").is_some(), by == "model");
        }
    }
    let tsv = translate(run, &["abc"], &[&args[..], &["--format", "tsv"]].concat());
    assert_eq!(tsv, "abc\tx\t\n");
    let missing = [
        "translate",
        "abc",
        "--model",
        ".",
        "--dictionary",
        "missing.tsv",
    ];
    fail(run, &missing, "cannot read missing.tsv");
}

#[test]
fn given_outputs_have_a_score() {
    let (run, _) = trained();
    let args = ["score", "abc", "cba", "e", "e", "--model", "."];
    let stdout = succeed(run, &args);
    let lines: Vec<Vec<&str>> = stdout
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(
        [lines[0][0], lines[0][1], lines[1][0], lines[1][1]],
        ["abc", "cba", "e", "e"]
    );
    for line in &lines {
        let tokens = line[3].split(' ').map(|it| it.parse::<f64>().unwrap());
        let tokens: Vec<f64> = tokens.collect();
        // The tokens and the end.
        assert_eq!(tokens.len(), line[1].len() + 1);
        let sum: f64 = line[2].parse().unwrap();
        assert!((tokens.iter().sum::<f64>() - sum).abs() < 1e-9 && sum < 0.0);
    }
    // An output of a search has the score that the search found.
    let found = translate(
        run,
        &["abc"],
        &[&SEARCH[..], &["--format", "jsonl"]].concat(),
    );
    let object = &objects(&found)[0];
    for output in outputs(object)
        .iter()
        .filter(|output| output["ended"] == true)
    {
        let scored = succeed(
            run,
            &["score", "abc", string(&output["text"]), "--model", "."],
        );
        let scored: f64 = scored.split('\t').nth(2).unwrap().parse().unwrap();
        assert_eq!(Some(scored), output["log_probability"].as_f64());
    }
    // Pairs of a file and of the standard input; one that has no score is empty.
    let input = b"abc\tcba\ncab\t?\ne\te\n";
    let args = ["score", "--model", "."];
    let output = run_with_input(run, &args, input);
    let from_input = text(&output.stdout);
    bad(&args, output, "pair 2: unknown token \"?\" at position 1; ");
    let expected = stdout.replacen('\n', "\n\n", 1);
    assert_eq!(from_input, expected);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pairs.tsv");
    fs::write(&file, "abc\tcba\ne\te\n").unwrap();
    let args = ["score", "--model", ".", "--data", file.to_str().unwrap()];
    assert_eq!(program::good(&args, program::run(run, &args)), stdout);
    fail(
        run,
        &["score", "abc", "--model", "."],
        "the texts to score: expected a source and an output each, found \"abc\" alone",
    );
}

#[test]
fn settings_of_a_search_are_checked_before_the_input_is_read() {
    let (run, _) = trained();
    for (args, message) in [
        (
            &["--beam", "0"][..],
            "the beam: expected 1 to 10000, found 0",
        ),
        (
            &["--beam", "2", "--n-best", "3"],
            "the number of best outputs: expected 1 to 2, ",
        ),
        (
            &["--mass", "1.5"],
            "the probability of the best outputs: expected above 0 and at most 1, found 1.5",
        ),
        (
            &["--length-penalty", "-1"],
            "the length penalty: expected a number from 0, found -1",
        ),
        (
            &["--min-length", "9", "--max-length", "9"],
            "the minimum length: expected less than 9, ",
        ),
        (&["--prefix", "a?"], "unknown token \"?\" at position 2; "),
    ] {
        let args = [&["translate", "--model", "."], args].concat();
        fail(run, &args, message);
    }
    let prefixed = translate(
        run,
        &["abc"],
        &["--model", ".", "--prefix", "zz", "--min-length", "4"],
    );
    assert!(
        prefixed.starts_with("zz") && prefixed.trim_end().len() >= 4,
        "{prefixed}"
    );
    let few = translate(run, &["abc"], &["--model", ".", "--mass", "1e-300"]);
    assert_eq!(few.split('\t').count(), 1);
}
