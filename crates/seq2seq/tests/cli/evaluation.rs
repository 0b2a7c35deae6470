//! `seq2seq eval`: its lines, its JSON object, and the outputs that are far off.

use std::path::Path;

use serde_json::{Value, json};

use crate::json::{line, list, number, string};
use crate::program::{
    self, Folder, assert_starts, fail, first_line, number_pairs, succeed, train_on, trained,
};

/// A folder with a run that has learned numbers, and validates on these pairs.
fn trained_on_numbers(valid: &str) -> Folder {
    let folder = Folder::new();
    train_on(&folder, [&number_pairs(), valid], "");
    folder
}

fn eval(folder: &Path, others: &str) -> String {
    succeed(folder, &format!("eval --model run --threads 1 {others}"))
}

fn json(folder: &Path, others: &str) -> Value {
    line(&eval(folder, &format!("--format json {others}")))
}

/// A share of 1 in percent, as the lines have it.
fn percent(figure: &Value) -> String {
    format!("{:.2}", 100.0 * number(figure))
}

fn range(interval: &Value, factor: f64) -> String {
    let bound = |at: usize| factor * number(&interval[at]);
    assert!(bound(0) <= bound(1), "{interval}");
    format!("{:.2} to {:.2}", bound(0), bound(1))
}

#[test]
fn lines_and_object_have_the_same_figures() {
    let run = trained().0.parent().unwrap();
    let lines = eval(run, "");
    let object = json(run, "");
    let first = format!(
        "10 sources: exact match {} %, sequence error rate {} %, token error rate {} %",
        percent(&object["exact_match"]),
        percent(&object["sequence_error_rate"]),
        percent(&object["token_error_rate"]),
    );
    assert_starts(&lines, &first);
    let intervals = &object["intervals"];
    let second = format!(
        "95 % confidence: sequence error rate {} %, token error rate {} %",
        range(&intervals["sequence_error_rate"], 100.0),
        range(&intervals["token_error_rate"], 100.0),
    );
    // The words of `reverse` are no sentences.
    assert_eq!(lines.lines().nth(1), Some(&second[..]), "{lines}");
    assert_eq!(lines.lines().count(), 2, "{lines}");

    let number = |name: &str| number(&object[name]);
    assert_eq!(number("sources"), 10.0);
    let rate = number("edits") / number("reference_tokens");
    assert_eq!(number("token_error_rate"), rate);
    assert!(number("edits") > 0.0 && number("chrf") > 0.0 && number("d2l_bleu") < 1.0);
    let is_noted = first_line(&lines).contains("reached the limit");
    assert_eq!(number("cut_off") > 0.0, is_noted, "{lines}");
    assert_eq!(object["errors"], json!([]));
    let expected = (&0.95.into(), &1000.into());
    assert_eq!((&intervals["confidence"], &intervals["samples"]), expected);
}

#[test]
fn the_worst_outputs_are_aligned_to_their_references() {
    let run = trained().0.parent().unwrap();
    let object = json(run, "--errors 3");
    let errors = list(&object["errors"]);
    assert_eq!(errors.len(), 3);
    let all = json(run, "--errors 100");
    let all = list(&all["errors"]);
    let wrong: f64 = 10.0 * number(&object["sequence_error_rate"]);
    assert_eq!((all.len() as f64, &all[..3]), (wrong.round(), errors));
    let edits: Vec<u64> = all.iter().map(|it| it["edits"].as_u64().unwrap()).collect();
    assert!(edits.is_sorted_by(|a, b| a >= b), "{edits:?}");
    assert_eq!(edits.iter().sum::<u64>(), object["edits"].as_u64().unwrap());
    let lines = eval(run, "--errors 3");
    let mut blocks = lines.split("\n\n").skip(1);
    for wrong in errors {
        let source = string(&wrong["source"]);
        let target: String = source.chars().rev().collect();
        assert_eq!(wrong["reference"], target);
        let steps = list(&wrong["alignment"]);
        let side = |name: &str| -> String {
            let texts = steps.iter().filter_map(|step| step[name].as_str());
            texts.collect()
        };
        assert_eq!(side("output"), string(&wrong["output"]));
        assert_eq!(side("reference"), target);
        let changes = steps.iter().filter(|step| step["edit"] != "match").count();
        assert_eq!(wrong["edits"], changes);

        let block: Vec<&str> = blocks.next().unwrap().lines().collect();
        let plural = if changes == 1 { "" } else { "s" };
        let title = format!("{changes} edit{plural}: {source}");
        assert!(block[0].starts_with(&title), "{block:?}");
        let reference = block[2].strip_prefix("  reference ").unwrap();
        assert_eq!(reference.replace([' ', '*'], ""), target);
        assert_eq!(block[3].replace(' ', "").len(), changes, "{block:?}");
    }
    assert_eq!(blocks.next(), None);
}

#[test]
fn sentences_have_bleu_and_chrf() {
    let folder = &Folder::new();
    let line = |at: usize| format!("the {} sees\tle {} voit .\n", at % 3, at % 3);
    let lines: String = (0..40).map(line).collect();
    let valid = "the 1 sees\tle 1 voit .\nthe 1 sees\tle 1 regarde .\nsees 2\tvoit 2\n";
    train_on(folder, [&lines, valid], "");
    let object = json(folder, "");
    let lines = eval(folder, "");
    let number = |name: &str| number(&object[name]);
    let third = format!(
        "BLEU {:.2} ({}), chrF {:.2} ({})",
        number("bleu"),
        range(&object["intervals"]["bleu"], 1.0),
        number("chrf"),
        range(&object["intervals"]["chrf"], 1.0),
    );
    assert_eq!(lines.lines().nth(2), Some(&third[..]), "{lines}");
}

#[test]
fn unknown_tokens_are_named_once_and_read_as_told() {
    let folder = &trained_on_numbers("10zy\t9\n0z11\t3\nzyz\t1\n01\t1\n");
    let second_last = |lines: &str| lines.lines().nth(2).map(str::to_string);
    let named = |how: &str| Some(format!("unknown source tokens, {how}: \"z\" \"y\""));
    let as_unk = eval(folder, "");
    assert_starts(&as_unk, "4 sources: ");
    assert_eq!(second_last(&as_unk), named("read as <unk>"));
    assert_eq!(eval(folder, "--unknown unk"), as_unk);

    let skipped = eval(folder, "--unknown skip");
    assert_eq!(second_last(&skipped), named("left out"));
    let targets = "unknown target tokens, which no output has (1 source can only be wrong): \"9\"";
    assert_eq!(skipped.lines().nth(3), Some(targets));
    let object = json(folder, "--unknown skip --errors 9");
    assert_eq!(object["unknown"], json!(["z", "y"]));
    assert_eq!(object["unknown_targets"], json!(["9"]));
    assert_eq!(object["out_of_reach"], 1);
    // Nothing is left of one source: its output is empty. A target that cannot be written is wrong.
    let errors = list(&object["errors"]);
    let of = |source: &str| errors.iter().find(|wrong| wrong["source"] == source);
    assert_eq!(of("zyz").unwrap()["output"], "");
    assert!(of("10zy").is_some(), "{object}");

    let message = "unknown token \"z\" at position 3; ";
    fail(folder, "eval --model run --unknown error", message);
}

#[test]
fn a_text_is_translated_without_its_unknown_tokens() {
    let folder = &trained_on_numbers("01\t1\n");
    let both = |args: &str| {
        let output = program::run(folder, &format!("translate --model run --unknown {args}"));
        assert!(output.status.success());
        let notes = program::faults(&output.stderr);
        (program::text(&output.stdout), notes)
    };
    let (known, silent) = both("skip 1011");
    assert_eq!(silent, "");
    let (skipped, notes) = both("skip 1z0yz11 1011 zz");
    // Nothing is left of the last.
    assert_eq!(skipped, format!("{known}{known}\n"));
    let note = |token: &str, how: &str| format!("note: unknown token \"{token}\" is {how}\n");
    assert_eq!(notes, note("z", "left out") + &note("y", "left out"));
    let (read, notes) = both("unk 1z0yz11 zz");
    assert_eq!(read.lines().count(), 2);
    let expected = ["z", "y"].map(|token| note(token, "read as <unk>"));
    assert_eq!(notes, expected.concat());
    let message = "unknown token \"z\" at position 2; ";
    fail(folder, "translate 1z0 --model run", message);
}

#[test]
fn alignments_count_the_tokens_that_are_left_out() {
    let folder = &trained_on_numbers("01\t1\n");
    let aligned = |args: &str| -> Value {
        let args = format!("translate --model run --format jsonl --alignments {args}");
        let output = program::run(folder, &args);
        assert!(output.status.success());
        line(&program::text(&output.stdout))["outputs"][0]["alignment"].clone()
    };
    // The places of the known tokens in the text.
    let (text, places) = ("zz1y01", [2, 4, 5]);
    let plain = aligned("pharaoh 101");
    let links = string(&plain).split(' ').map(|link| {
        let (source, target) = link.split_once('-').unwrap();
        format!("{}-{target}", places[source.parse::<usize>().unwrap()])
    });
    let links: Vec<String> = links.collect();
    assert!(!links.is_empty());
    let skipped = aligned(&format!("pharaoh {text} --unknown skip"));
    assert_eq!(skipped, links.join(" "));

    let plain = aligned("json 101");
    let skipped = aligned(&format!("json {text} --unknown skip"));
    assert_eq!(skipped["source"], json!(["z", "z", "1", "y", "0", "1"]));
    assert_eq!(skipped["target"], plain["target"]);
    let rows = list(&skipped["weights"]).iter().map(crate::json::numbers);
    for (row, plain) in rows.zip(list(&plain["weights"])) {
        assert_eq!(json!(places.map(|at| row[at])), *plain);
        assert_eq!([row[0], row[1], row[3]], [0.0; 3]);
    }
    // A report names the places of the tokens that were read.
    folder.write("others.tsv", "zz1y01\t5\n");
    eval(folder, "--data others.tsv --unknown skip --report x.html");
    let data = crate::page::data_of(&folder.join("x.html"));
    let explanation = &data["items"][0]["explanations"][0];
    assert_eq!(explanation["source"], text);
    assert_eq!(explanation["tokens"], json!(["1", "0", "1"]));
    assert_eq!(explanation["positions"], json!(places));
}
