//! The program tells what is in a run.

use std::fs;
use std::path::Path;

use serde_json::Value;

use attention_tests::assert_says;

use crate::json::{line, list, number};
use crate::program::{self, Folder, copied, edit, fail, manifest, succeed, trained};

fn json(run: &Path) -> Value {
    line(&succeed(run, "info . --format json"))
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
    let losses = [0, 1].map(|at| number(&manifest["history"][at]["valid"]["loss"]));
    let lowest = if losses[1] < losses[0] { 2 } else { 1 };
    assert_eq!(info["best"], lowest);
    for side in ["source", "target"] {
        let vocab = &info[format!("{side}_vocab")];
        let tokens = list(&manifest["vocabs"][side]);
        assert_eq!(vocab["size"], tokens.len());
        assert_eq!(list(&vocab["first"]), &tokens[4..16]);
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
    assert_says(&stdout, &data);
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
    assert_says(&stdout, expected);
}

#[test]
fn a_folder_without_a_run_is_an_error() {
    let message = "the model runs/dates: no trained model";
    fail(&Folder::new(), "info", message);
}
