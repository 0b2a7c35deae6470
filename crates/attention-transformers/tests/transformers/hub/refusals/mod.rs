//! Folders that do not fit: each error names the file, the field or the tensor, what was expected and what came.

mod fields;
mod files;

use std::path::Path;

use attention_import::ImportError;
use attention_tests::device;
use attention_transformers::hub::{
    load_bart, load_bert, load_bloom, load_gemma2, load_gemma3, load_gpt2, load_llama, load_opt,
    load_phi3, load_qwen3, load_t5,
};

use super::folder::FolderCopy;

/// The error of loading a model of a family, if it does not fit.
fn load(family: &str, folder: &Path) -> Result<(), ImportError> {
    let device = &device::plain()[0];
    match family {
        "llama" | "llama_sharded" => load_llama(folder, device).map(drop),
        "qwen3" => load_qwen3(folder, device).map(drop),
        "gemma2" => load_gemma2(folder, device).map(drop),
        "gemma3" => load_gemma3(folder, device).map(drop),
        "gpt2" => load_gpt2(folder, device).map(drop),
        "bloom" => load_bloom(folder, device).map(drop),
        "opt" => load_opt(folder, device).map(drop),
        "phi3" => load_phi3(folder, device).map(drop),
        "bert" | "bert_untied" | "roberta" | "distilbert" | "electra" => {
            load_bert(folder, device).map(drop)
        }
        "bart" | "mbart" | "marian" => load_bart(folder, device).map(drop),
        "t5" | "t5_gated" => load_t5(folder, device).map(drop),
        other => panic!("no family {other}"),
    }
}

/// The model of `copy` is refused by an error of `file` for the reason `expected`.
fn refuses(family: &str, copy: &FolderCopy, file: &str, expected: &str) {
    let error = load(family, copy.path()).expect_err(expected).to_string();
    let path = copy.path().join(file);
    let expected = format!("cannot load `{}`: {expected}", path.display());
    let holds = error.starts_with(&expected);
    assert!(holds, "`{expected}` expected, got `{error}`");
}
