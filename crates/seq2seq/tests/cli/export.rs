//! A model exported.

use std::fs;
use std::path::Path;

use attention_seq2seq::Translator;
use serde_json::{Value, json};

use attention_tests::assert_says;

use crate::program::{self, Folder, fail, manifest, succeed, trained};

/// The header of a file of safetensors.
fn header(file: &Path) -> Value {
    let bytes = fs::read(file).unwrap();
    let (len, rest) = bytes.split_first_chunk().unwrap();
    let len = u64::from_le_bytes(*len) as usize;
    serde_json::from_slice(&rest[..len]).unwrap()
}

/// A folder in which the model of [`trained`] was exported, and what the program said.
fn exported(others: &[&str]) -> (Folder, String) {
    let folder = Folder::new();
    let run = trained().0.to_str().unwrap();
    let stdout = succeed(&folder, &[&["export", "--model", run], others].concat());
    (folder, stdout)
}

#[test]
fn one_file_has_parameters_settings_and_vocabularies() {
    let (folder, stdout) = exported(&[]);
    assert_eq!(stdout, "saved model.safetensors\n");
    let header = header(&folder.join("model.safetensors"));
    let metadata = header["__metadata__"][Translator::METADATA_KEY].as_str();
    let metadata: Value = serde_json::from_str(metadata.unwrap()).unwrap();
    let run = manifest(&trained().0);
    let settings = &run["settings"];
    for name in ["model", "attention", "max_len"] {
        assert_eq!(metadata[name], settings[name], "{name}");
    }
    assert_eq!(metadata["vocabs"], run["vocabs"]);
    assert_eq!(metadata["epoch"], run["model"]);
    let tokens = ["source_tokens", "target_tokens"].map(|side| &metadata[side]);
    assert_eq!(tokens, ["chars", "chars"]);
    // Both directions have half of the states.
    let shape = &header["encoder.rnn.weight_ih_l0_reverse"]["shape"];
    assert_eq!(*shape, json!([12, 4]));
    assert_eq!(header["decoder.attention.score.W_q.weight"]["dtype"], "F32");
}

#[test]
fn a_longer_limit_goes_along() {
    let (folder, stdout) = exported(&["--output", "x", "--max-length", "77"]);
    assert_eq!(stdout, "saved x\n");
    let metadata = header(&folder.join("x"))["__metadata__"].to_string();
    assert_says(&metadata, r#"\"max_len\":77,"#);
}

#[test]
fn what_cannot_be_exported_is_an_error() {
    let folder = &Folder::new();
    fail(folder, "export --model none", "no trained model is there");
    let run = trained().0.to_str().unwrap();
    let args = ["export", "--model", run, "--output", "none/x"];
    fail(folder, &args, "cannot write none/x");
    assert!(program::files(folder).is_empty());
}
