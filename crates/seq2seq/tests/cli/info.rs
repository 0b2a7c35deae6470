//! The program tells what is in a run.

use std::fs;
use std::path::Path;

use serde_json::Value;

use attention_tests::assert_says;

use crate::program::{self, copied, edit, fail, manifest, succeed, trained};

fn json(run: &Path) -> Value {
    let stdout = succeed(run, "info . --format json");
    assert_eq!(stdout.lines().count(), 1);
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn json_has_settings_sizes_and_history() {
    let (run, _) = trained();
    let (info, manifest) = (json(run), manifest(run));
    for name in ["settings", "history", "model"] {
        assert_eq!(info[name], manifest[name], "{name}");
    }
    assert_eq!(info["checkpoints"], serde_json::json!([1, 2]));
    assert_eq!(info["is_chosen"], true);
    let losses = [0, 1].map(|at| manifest["history"][at]["valid"]["loss"].as_f64().unwrap());
    let lowest = if losses[1] < losses[0] { 2 } else { 1 };
    assert_eq!(info["best"], lowest);
    for side in ["source", "target"] {
        let vocab = &info[format!("{side}_vocab")];
        let tokens = manifest["vocabs"][side].as_array().unwrap();
        assert_eq!(vocab["size"], tokens.len());
        assert_eq!(vocab["first"].as_array().unwrap(), &tokens[4..16]);
    }
    let files = program::files(run).into_iter();
    let sizes = files.map(|file| fs::metadata(run.join(file)).unwrap().len());
    assert_eq!(info["bytes_on_disk"], sizes.sum::<u64>());
    // Embeddings, encoder, attention, first states, decoder, output.
    let encoder = 2 * 12 * (4 + 4 + 2);
    let decoder = 24 * (4 + 8 + 8 + 2);
    let parameters = 2 * 30 * 4 + encoder + 17 * 8 + 9 * 8 + decoder + 17 * 30;
    assert_eq!(info["parameters"], parameters);
    assert_eq!(info["bytes_in_memory"], 4 * parameters);
}

#[test]
fn text_has_a_line_for_each_fact() {
    let (run, _) = trained();
    let stdout = succeed(run, "info .");
    for line in [
        "folder       .",
        "kind         rnn with the attention additive",
        "outputs      at most 27 tokens",
        "checkpoints  1, 2",
        "             hidden = 8",
    ] {
        assert!(stdout.lines().any(|it| it == line), "{line}: {stdout}");
    }
    let checksum = manifest(run)["settings"]["data_checksum"].as_u64().unwrap();
    let data = format!("data         task reverse, CRC-32 {checksum:08x}\n");
    assert!(stdout.contains(&data), "{stdout}");
    assert_says(&stdout, ", chosen for its validation loss\n");
    assert_eq!(stdout.matches("  lowest validation loss\n").count(), 1);
    assert!(stdout.lines().all(|line| line.len() <= 100), "{stdout}");
}

#[test]
fn a_training_that_has_not_ended_is_told() {
    let (_folder, run) = copied();
    let model = format!("\"model\": {}", manifest(&run)["model"]);
    edit(&run, &model, "\"model\": null");
    assert_eq!(json(&run)["is_chosen"], false);
    let stdout = succeed(&run, "info .");
    let expected = "model        epoch 2, the newest: the training has not ended\n";
    assert!(stdout.contains(expected), "{stdout}");
}

#[test]
fn a_folder_without_a_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let message = "the model runs/dates: no trained model";
    fail(folder.path(), &["info"], message);
}
