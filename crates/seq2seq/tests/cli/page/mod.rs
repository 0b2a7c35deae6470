//! Pages: their data is what `translate`, `score` and `eval` say, and their texts are data.

mod options;
mod report;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::json::{lines, list, number, numbers, string};
use crate::program::{self, Folder, TRAIN_TRANSFORMER, succeed, train_args, train_on, trained};

/// The data of a page.
pub(crate) fn data_of(file: &Path) -> Value {
    data_in(&fs::read_to_string(file).unwrap())
}

/// The data in the text of a page.
pub(crate) fn data_in(html: &str) -> Value {
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// The data of the page of some texts.
fn attended(run: &Path, args: &str) -> Value {
    let folder = &Folder::new();
    let file = folder.join("x.html");
    let args = format!("attend {args} --model . --output {}", file.display());
    succeed(run, &args);
    data_of(&file)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    let is_near = (found - expected).abs() <= tolerance;
    assert!(is_near, "{found} is not {expected}");
}

/// The log-probabilities of the tokens of an output and of its end, by `score`.
fn scores(run: &Path, source: &str, target: &str) -> Vec<f64> {
    program::scores(&succeed(run, &["score", source, target, "--model", "."]))
}

/// The objects of `translate` with the outputs of a search, and their weights.
fn translated(run: &Path, args: &str) -> Vec<Value> {
    let args = format!("translate {args} --model . --format jsonl --alignments json");
    lines(&succeed(run, &args))
}

#[test]
fn a_page_has_what_translate_and_score_say() {
    let (run, _) = trained();
    let args = "abc zyxwvut --n-best 3";
    let data = attended(run, args);
    let items = list(&data["items"]);
    assert_eq!((items.len(), &data["evaluated"]), (2, &Value::Null));
    assert_eq!(data["models"][0]["description"], "rnn, additive attention");
    let found = translated(run, args);
    for ((item, found), source) in items.iter().zip(found).zip(["abc", "zyxwvut"]) {
        let explanation = &item["explanations"][0];
        assert_eq!(explanation["source"], source);
        let tokens: Vec<&str> = list(&explanation["tokens"]).iter().map(string).collect();
        assert_eq!(tokens.concat(), source);
        let greedy = succeed(run, &["translate", source, "--model", "."]);
        let outputs = list(&explanation["outputs"]);
        let at = explanation["greedy"].as_u64().unwrap() as usize;
        assert_eq!(string(&outputs[at]["text"]), greedy.trim_end());
        // The greedy output comes after the outputs of the search, if it is none of them.
        assert!(outputs.len() == 3 || outputs.len() == 4 && at == 3);
        for (output, expected) in outputs.iter().zip(list(&found["outputs"])) {
            for name in ["text", "ended", "log_probability", "score"] {
                assert_eq!(output[name], expected[name], "{name}");
            }
            let weights = list(&expected["alignment"]["weights"]);
            let expected: Vec<f64> = weights.iter().flat_map(numbers).collect();
            let found = numbers(&output["attention"]["weights"]);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert_near(*found, expected, 5.1e-4);
            }
        }
        for output in outputs {
            check_steps(run, source, output);
        }
        check_occlusion(run, source, &outputs[0]);
    }
}

/// The steps of an output are as in `score`, and the alternatives a distribution's largest.
fn check_steps(run: &Path, source: &str, output: &Value) {
    let steps = list(&output["steps"]);
    let text = string(&output["text"]);
    let mut expected = scores(run, source, text);
    expected.truncate(steps.len());
    assert_eq!(steps.len(), expected.len());
    for (step, expected) in steps.iter().zip(&expected) {
        // A parser may round.
        assert_near(number(&step["log_probability"]), *expected, 1e-12);
    }
    let sum = number(&output["log_probability"]);
    assert_near(sum, expected.iter().sum(), 1e-9);
    let tokens = steps.iter().map(|step| string(&step["token"]));
    let end = if output["ended"] == true { "<eos>" } else { "" };
    assert_eq!(tokens.collect::<String>(), format!("{text}{end}"));
    for step in steps {
        let alternatives = list(&step["alternatives"]);
        let shares: Vec<f64> = alternatives.iter().map(|it| number(&it[1])).collect();
        assert_eq!(shares.len(), 5);
        assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
        let sum: f64 = shares.iter().sum();
        assert!(sum > 0.0 && sum < 1.0 + 1e-4, "{sum}");
        let probability = number(&step["log_probability"]).exp();
        match alternatives.iter().find(|it| it[0] == step["token"]) {
            Some(chosen) => assert_near(number(&chosen[1]), probability, 1e-5),
            None => assert!(probability <= shares[4] + 1e-5),
        }
        // At least the entropy of the alternatives alone, at most the entropy of 26 letters and the end.
        let entropy = number(&step["entropy"]);
        let shares = shares.iter().filter(|p| **p > 0.0);
        let least: f64 = shares.map(|p| -p * p.ln()).sum();
        let bounds = least - 1e-3..27f64.ln() + 1e-3;
        assert!(bounds.contains(&entropy), "{entropy} in {bounds:?}");
        for token in ["<pad>", "<bos>", "<unk>"] {
            assert!(alternatives.iter().all(|it| it[0] != token));
        }
    }
}

/// The occlusion is the difference of two scores.
fn check_occlusion(run: &Path, source: &str, output: &Value) {
    let text = string(&output["text"]);
    let steps = list(&output["steps"]).len();
    let with = scores(run, source, text);
    let occlusion = &output["occlusion"];
    let (of_output, of_steps) = (numbers(&occlusion["output"]), numbers(&occlusion["steps"]));
    assert_eq!(of_output.len(), source.len());
    assert_eq!(of_steps.len(), source.len() * steps);
    for (dropped, row) in of_steps.chunks(steps).enumerate() {
        let left = format!("{}{}", &source[..dropped], &source[dropped + 1..]);
        let without = scores(run, &left, text);
        let pairs = without.iter().zip(&with);
        let changes = pairs.map(|(without, with)| without - with);
        let changes: Vec<f64> = changes.take(steps).collect();
        for (found, expected) in row.iter().zip(&changes) {
            assert_near(*found, *expected, 5.1e-4);
        }
        assert_near(of_output[dropped], changes.iter().sum(), 5.1e-4);
    }
    assert!(of_output.iter().any(|change| *change != 0.0));
}

#[test]
fn a_source_of_one_token_has_no_occlusion() {
    let (run, _) = trained();
    let data = attended(run, "e");
    let explanation = &data["items"][0]["explanations"][0];
    assert_eq!(explanation["outputs"][0]["occlusion"], Value::Null);
    // Five outputs, if no other number is given.
    assert!(list(&explanation["outputs"]).len() >= 5);
}

#[test]
fn a_page_has_all_heads_of_a_transformer_and_two_models_side_by_side() {
    let folder = &Folder::new();
    succeed(folder, &format!("{TRAIN_TRANSFORMER} --heads 2 --out a"));
    succeed(folder, &train_args("reverse", "1", "--out b"));
    let args = "attend cab --model a --compare b --layer 1 --head 2 --output x.html";
    let stdout = succeed(folder, &args);
    assert!(stdout.ends_with("saved x.html\n"), "{stdout}");
    let data = data_of(&folder.join("x.html"));
    assert_eq!(data["head"], serde_json::json!({"layer": 1, "head": 2}));
    let names = [0, 1].map(|model| &data["models"][model]["name"]);
    assert_eq!(names, ["a", "b"]);
    let explanations = list(&data["items"][0]["explanations"]);
    assert_eq!(explanations[0]["attends_to_end"], true);
    assert_eq!(explanations[1]["attends_to_end"], false);
    for output in list(&explanations[0]["outputs"]) {
        let attention = &output["attention"];
        assert_eq!([&attention["layers"], &attention["heads"]], [2, 2]);
        let (steps, keys) = (list(&output["steps"]).len(), 4);
        let weights = numbers(&attention["weights"]);
        assert_eq!(weights.len(), 2 * 2 * steps * keys);
        for row in weights.chunks(keys) {
            assert_near(row.iter().sum(), 1.0, 2.1e-3);
        }
    }
    // The mean over the heads of the last layer is what `translate` gives.
    let found = translated(&folder.join("a"), "cab --n-best 5");
    let outputs = list(&explanations[0]["outputs"]).iter();
    for (output, expected) in outputs.zip(list(&found[0]["outputs"])) {
        let weights = numbers(&output["attention"]["weights"]);
        let heads: Vec<&[f64]> = weights.chunks(weights.len() / 4).collect();
        let expected = list(&expected["alignment"]["weights"]).iter();
        let expected = expected.flat_map(numbers);
        for (at, expected) in expected.enumerate() {
            assert_near((heads[2][at] + heads[3][at]) / 2.0, expected, 5.1e-4);
        }
    }
}

/// Texts with all that could end a script, a string or a line.
pub(crate) const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'`&amp;\\<!--",
    "שלום עולם",
    "e\u{301}a\u{308}",
    "a\u{2028}b",
    "{{data}} {{script}}",
];

/// A run that has learned to copy [`HOSTILE`] texts, in `run`.
pub(crate) fn train_on_hostile_texts(folder: &Folder) {
    let lines = HOSTILE.map(|text| format!("{text}\t{text}\n")).concat();
    let args = "--source-tokens chars --target-tokens chars --unicode none";
    train_on(folder, [&lines.repeat(6), &lines], args);
}

/// Draws the attention to them in `x.html`.
pub(crate) fn attend_to_hostile_texts(folder: &Folder) {
    train_on_hostile_texts(folder);
    let args = ["--model", "run", "--output", "x.html"];
    succeed(folder, &[&["attend"], &HOSTILE[..], &args].concat());
}

#[test]
fn markup_in_texts_is_data() {
    let folder = &Folder::new();
    attend_to_hostile_texts(folder);
    succeed(folder, "eval --model run --report y.html");
    for (name, texts) in [("x.html", "source"), ("y.html", "references")] {
        let html = fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(html.matches("<script").count(), 2, "{name}");
        assert_eq!(html.matches("</script>").count(), 2, "{name}");
        let holds = !html.contains("<img") && !html.contains('\u{2028}');
        assert!(holds, "{name}");
        let data = data_of(&folder.join(name));
        let items = list(&data["items"]).iter();
        let mut found: Vec<&str> = items
            .map(|item| match texts {
                "source" => string(&item["explanations"][0]["source"]),
                _ => string(&item["references"][0]),
            })
            .collect();
        found.sort();
        let mut expected = HOSTILE.to_vec();
        expected.sort();
        assert_eq!(found, expected, "{name}");
    }
}
