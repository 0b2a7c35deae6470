//! Words divided into subwords.

#[cfg(feature = "subwords")]
use std::fs;
use std::path::Path;

#[cfg(feature = "subwords")]
use attention_tests::assert_says;
#[cfg(feature = "subwords")]
use serde_json::Value;

#[cfg(feature = "subwords")]
use crate::json::list;
#[cfg(not(feature = "subwords"))]
use crate::program::edit;
use crate::program::{Folder, fail, succeed};
#[cfg(feature = "subwords")]
use crate::program::{assert_starts, manifest};

/// Phrases, and their words in the other order.
fn phrases(folder: &Folder) {
    let subjects = "the newest river|a wider road|the lowest tower|a new low".split('|');
    let mut lines = String::new();
    for subject in subjects {
        for verb in ["flows", "widens", "lowers", "renews"] {
            let source = format!("{subject} {verb}");
            let target: Vec<&str> = source.split(' ').rev().collect();
            lines += &format!("{source}\t{}\n", target.join(" "));
        }
    }
    folder.write("phrases.tsv", &lines);
    folder.write("valid.tsv", &lines);
}

fn train(folder: &Path, others: &str) -> String {
    let sizes =
        "--data phrases.tsv --valid valid.tsv --embedding 4 --hidden 8 --threads 1 --epochs 1";
    succeed(folder, &format!("train {sizes} {others}"))
}

#[cfg(feature = "subwords")]
#[test]
fn words_are_divided_and_joined_again() {
    let folder = &Folder::new();
    phrases(folder);
    let stdout = train(folder, "--subwords 30");
    assert_starts(&stdout, "16 training pairs, 16 validation pairs;");
    let run = manifest(&folder.join("runs/phrases"));
    let vocab = run["vocabs"]["target"].to_string();
    let has_pieces = vocab.contains("\"▁new\"") && !vocab.contains(' ');
    assert!(has_pieces, "{vocab}");
    let settings = &run["settings"];
    let subwords = &settings["data"]["tsv"]["options"]["target_subwords"];
    assert_eq!(subwords["count"], 30);
    // A letter that the pairs have in longer pieces alone.
    assert_says(&vocab, "\"f\"");
    let translate = ["translate", "a newer tower", "--model", "runs/phrases"];

    // A search among few continuations says words; no piece keeps its mark.
    let search = ["--min-length", "4", "--beam", "3"];
    let output = succeed(folder, &[&translate[..], &search].concat());
    assert!(output.len() > 4 && !output.contains('▁'), "{output}");
    let prefix = ["--prefix", "flows river"];
    let prefixed = succeed(folder, &[&translate[..], &prefix].concat());
    assert_starts(&prefixed, "flows river");
    // A text is one output, however it is divided.
    let n_best = ["--beam", "9", "--n-best", "9", "--format", "jsonl"];
    let found = succeed(folder, &[&translate[..], &n_best].concat());
    let found: Value = serde_json::from_str(&found).unwrap();
    let outputs = list(&found["outputs"]).iter();
    let texts: Vec<String> = outputs.map(|it| it["text"].to_string()).collect();
    let distinct: std::collections::HashSet<&String> = texts.iter().collect();
    assert_eq!(distinct.len(), texts.len(), "{texts:?}");
    let unknown = ["translate", "a näher tower", "--model", "runs/phrases"];
    fail(folder, &unknown, "unknown token \"ä\"");
    assert_says(succeed(folder, "eval --model runs/phrases"), "16");

    // The settings of the run, printed, make the same one; resumed, it goes on with the same pieces.
    let config = train(folder, "--subwords 30 --print-config");
    let is_told = config.contains("subwords = 30\n") && !config.contains("-tokens = \"s");
    assert!(is_told, "{config}");
    folder.write("subwords.toml", config);
    train(folder, "--config subwords.toml --out again");
    let again = &manifest(&folder.join("again"))["settings"];
    let options = |settings: &Value| settings["data"]["tsv"]["options"].clone();
    assert_eq!(options(again), options(settings));
    succeed(folder, "train --out again --resume --epochs 2");
    let resumed = &manifest(&folder.join("again"))["settings"];
    assert_eq!(resumed["data"], again["data"]);
}

#[cfg(feature = "subwords")]
#[test]
fn an_ensemble_has_the_subwords_of_the_same_texts() {
    let folder = &Folder::new();
    phrases(folder);
    train(folder, "--subwords 30 --out a");
    let lines = fs::read_to_string(folder.join("phrases.tsv")).unwrap();
    folder.write("phrases.tsv", lines.replace("lowest", "lightest"));
    train(folder, "--subwords 30 --out b");
    let args = "translate low --model a --model b";
    let subwords = "30 subwords of nfc";
    let message = format!(
        "source tokens of model 2: expected {subwords}, as in the first model of the ensemble, found {subwords} \
         of other texts"
    );
    fail(folder, args, &message);
}

#[cfg(feature = "subwords")]
#[test]
fn a_side_whose_tokens_are_given_has_none() {
    let folder = &Folder::new();
    phrases(folder);
    train(folder, "--subwords 30 --source-tokens chars");
    let options = &manifest(&folder.join("runs/phrases"))["settings"]["data"]["tsv"]["options"];
    assert_eq!(options["source_tokens"], "chars");
    assert!(options.get("source_subwords").is_none());
    assert_eq!(options["target_subwords"]["count"], 30);

    let refused = |others: &str, error: &str| {
        let args = format!("train --data phrases.tsv --out none {others}");
        fail(folder, &args, error);
    };
    refused(
        "--subwords 9 --source-tokens chars --target-tokens chars",
        "--subwords: expected a side without --source-tokens or --target-tokens, found both",
    );
    refused("--subwords 3", "the number of subwords: expected at least");
}

#[cfg(not(feature = "subwords"))]
#[test]
fn a_build_without_them_says_so() {
    let folder = &Folder::new();
    phrases(folder);
    let args = "train --data phrases.tsv --subwords 30";
    let expected = "subwords: expected a build with the feature `subwords`, found one without it";
    fail(folder, &args, expected);

    // A model that was trained by another build.
    train(folder, "");
    let run = folder.join("runs/phrases");
    let subwords = r#""source_subwords":{"count":4,"pieces":{}},"max_tokens""#;
    edit(&run, r#""max_tokens""#, subwords);
    fail(folder, "translate a --model runs/phrases", expected);
}
