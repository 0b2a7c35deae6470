//! A model exported, and what PyTorch makes of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use attention_seq2seq::{
    AnyModel, Batch, Example, RunDir, Translator, Vocab, compiled_in_devices, open_device,
};
use burn::tensor::Tensor;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{self, fail, good, manifest, succeed, trained};

/// The loader in Python.
pub(crate) const LOADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/seq2seq.py");

/// Models with what PyTorch must get right: cells, layers, directions, attentions, Transformers.
const MODELS: [&[&str]; 16] = [
    &[],
    &["--cell", "lstm"],
    &["--layers", "2", "--unidirectional", "--attention", "dot"],
    &["--layers", "2", "--cell", "lstm", "--attention", "bilinear"],
    &["--attention", "normalized"],
    &["--attention", "concat"],
    &["--attention", "biaffine"],
    &["--attention", "projected"],
    &["--attention", "cosine"],
    &["--attention", "qk-norm"],
    &["--attention", "gaussian"],
    &["--attention", "heads"],
    &["--attention", "heads", "--hidden", "6"],
    &["--model", "transformer", "--heads", "2"],
    &["--model", "transformer", "--heads", "1", "--layers", "1"],
    &["--model", "transformer", "--heads", "3", "--hidden", "9"],
];

/// Attentions that the loader has not.
const LEFT_OUT: [&[&str]; 6] = [
    &["--attention", "kernel"],
    &["--attention", "sparse"],
    &["--attention", "location"],
    &["--attention", "coverage"],
    &["--attention", "monotonic"],
    &["--attention", "additive", "--model", "transformer"],
];

/// Sources of one length and of several, more than the model was trained on.
const TEXTS: [&str; 6] = ["abc", "z", "reverse", "seq", "hgfedcba", " ab "];

/// A run of a small model, which has learned to say something from hundreds of pairs.
fn train(folder: &Path, name: &str, pairs: &str, settings: &[&str]) -> PathBuf {
    let sizes = "--valid-pairs 10 --batch-size 8 --threads 1 --learning-rate 0.02 --train-pairs";
    let mut args = vec!["train", "copy", "--epochs", "2", "--out", name];
    args.extend(sizes.split(' ').chain([pairs]));
    args.extend(settings);
    if !settings.contains(&"--hidden") {
        args.extend(["--hidden", "8"]);
    }
    succeed(folder, &args);
    folder.join(name)
}

/// The Python to compare with, if `ATTENTION_PYTHON` names one.
pub(crate) fn python() -> Option<Command> {
    let python = std::env::var_os("ATTENTION_PYTHON");
    if python.is_none() {
        println!("left out: ATTENTION_PYTHON names no Python with torch and safetensors");
    }
    let mut python = Command::new(python?);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

/// The outputs and log-probabilities of models in PyTorch; an error in the place of what cannot be loaded.
const COMPARED: &str = "
import json, sys
sys.path.insert(0, sys.argv[1])
import seq2seq, torch
torch.set_num_threads(1)
def of(job):
    try:
        model = seq2seq.load(job['file'])
    except ValueError as error:
        return str(error)
    outputs = model.translate(job['texts'])
    alone = [model.translate([text])[0] for text in job['texts']]
    assert outputs == alone, (outputs, alone)
    return dict(outputs=outputs, scores=[model.log_probabilities(*pair) for pair in job['pairs']])
print(json.dumps([of(job) for job in json.loads(sys.argv[2])]))
";

fn compare(mut python: Command, jobs: &[Value]) -> Vec<Value> {
    let folder = Path::new(LOADER).parent().unwrap();
    python.arg("-c").arg(COMPARED).arg(folder);
    let output = python.arg(json!(jobs).to_string()).output().unwrap();
    serde_json::from_str(&good(&["seq2seq.py"], output)).unwrap()
}

/// The log-probability of each token of a target and of its end, among those that may come next, in f64.
fn log_probabilities(translator: &Translator, source: &str, target: &str) -> Vec<f64> {
    let device = open_device(compiled_in_devices()[0]).unwrap();
    let chars = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
    let example = Example {
        source: translator.vocabs().source.encode(&chars(source)),
        target: translator.vocabs().target.encode(&chars(target)),
    };
    let batch = Batch::new(std::slice::from_ref(&example), &device);
    let logits: Tensor<3> = match translator.model().unwrap() {
        AnyModel::Rnn(model) => model.forward(&batch),
        AnyModel::Transformer(model) => model.forward(&batch),
    };
    let [_, _, tokens] = logits.dims();
    let logits: Vec<f64> = logits.into_data().iter::<f64>().collect();
    let never = [Vocab::PAD, Vocab::BOS, Vocab::UNK].map(|id| id as usize);
    let following = example.target.iter().chain([&Vocab::EOS]);
    let steps = logits.chunks(tokens).zip(following);
    steps
        .map(|(logits, &token)| {
            let candidates = logits.iter().enumerate();
            let candidates = candidates.filter(|(id, _)| !never.contains(id));
            let sum: f64 = candidates.map(|(_, logit)| logit.exp()).sum();
            logits[token as usize] - sum.ln()
        })
        .collect()
}

#[test]
fn pytorch_translates_as_the_program_does() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let device = open_device(compiled_in_devices()[0]).unwrap();
    let pairs = [("abc", "cba"), ("seq", "zz"), ("hgfedcba", "")];
    let mut jobs = Vec::new();
    let mut expected = Vec::new();
    for (index, settings) in MODELS.iter().enumerate() {
        let run = train(folder, &format!("run{index}"), "400", settings);
        let file = folder.join(format!("{index}.safetensors"));
        let translator = Translator::load(&RunDir::new(run), &device).unwrap();
        translator.export(&file).unwrap();
        let outputs = translator.translate(TEXTS).unwrap();
        let outputs: Vec<String> = outputs.into_iter().map(|output| output.text).collect();
        let scores = pairs.map(|(source, target)| log_probabilities(&translator, source, target));
        jobs.push(json!({ "file": file, "texts": TEXTS, "pairs": pairs }));
        expected.push((outputs, scores));
    }
    let said = expected.iter().flat_map(|(outputs, _)| outputs);
    let said: BTreeSet<&String> = said.collect();
    assert!(said.len() > MODELS.len(), "it says too little: {said:?}");
    let actual = compare(python, &jobs);
    assert_eq!(actual.len(), MODELS.len());
    for ((settings, actual), (outputs, scores)) in MODELS.iter().zip(actual).zip(expected) {
        assert_eq!(actual["outputs"], json!(outputs), "{settings:?}");
        let actual = actual["scores"].as_array().unwrap();
        for (actual, expected) in actual.iter().zip(scores) {
            let actual: Vec<f64> = serde_json::from_value(actual.clone()).unwrap();
            assert_eq!(actual.len(), expected.len(), "{settings:?}");
            for (actual, expected) in actual.into_iter().zip(expected) {
                let difference = (actual - expected).abs();
                assert!(difference < 1e-4, "{settings:?}: {actual}, {expected}");
            }
        }
    }
}

#[test]
fn pytorch_names_the_attention_that_it_has_not() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut jobs = Vec::new();
    for (index, settings) in LEFT_OUT.iter().enumerate() {
        let name = format!("run{index}");
        train(folder, &name, "8", settings);
        let file = format!("{index}.safetensors");
        succeed(folder, &["export", "--model", &name, "--output", &file]);
        jobs.push(json!({ "file": folder.join(file), "texts": [], "pairs": [] }));
    }
    for (settings, error) in LEFT_OUT.iter().zip(compare(python, &jobs)) {
        let error = error.as_str().unwrap();
        assert!(error.starts_with("the attention"), "{error}");
        let found = format!("found {}", settings[1]);
        assert!(error.ends_with(&found), "{settings:?}: {error}");
    }
}

/// The header of a file of safetensors.
fn header(file: &Path) -> Value {
    let bytes = fs::read(file).unwrap();
    let (len, rest) = bytes.split_first_chunk().unwrap();
    let len = u64::from_le_bytes(*len) as usize;
    serde_json::from_slice(&rest[..len]).unwrap()
}

/// A folder in which the model of [`trained`] was exported, and what the program said.
fn exported(others: &[&str]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = trained().0.to_str().unwrap();
    let args = [&["export", "--model", run], others].concat();
    let stdout = succeed(folder.path(), &args);
    (folder, stdout)
}

#[test]
fn one_file_has_parameters_settings_and_vocabularies() {
    let (folder, stdout) = exported(&[]);
    assert_eq!(stdout, "saved model.safetensors\n");
    let header = header(&folder.path().join("model.safetensors"));
    let metadata = header["__metadata__"][Translator::METADATA_KEY].as_str();
    let metadata: Value = serde_json::from_str(metadata.unwrap()).unwrap();
    let run = manifest(&trained().0);
    let settings = &run["settings"];
    assert_eq!(metadata["format"], 1);
    for name in ["model", "attention", "max_len", "data_checksum", "train"] {
        assert_eq!(metadata[name], settings[name], "{name}");
    }
    assert_eq!(metadata["vocabs"], run["vocabs"]);
    assert_eq!(metadata["epoch"], run["model"]);
    let tokens = ["source_tokens", "target_tokens"].map(|side| &metadata[side]);
    assert_eq!(tokens, ["chars", "chars"]);
    // Both directions have half of the states.
    let shape = &header["encoder.rnn.weight_ih_l0_reverse"]["shape"];
    assert_eq!(*shape, json!([12, 4]));
    assert_eq!(header["decoder.attention.W_q.weight"]["dtype"], "F32");
}

#[test]
fn a_longer_limit_and_the_loader_go_along() {
    let others = "--output x --python seq2seq.py --max-length 77";
    let (folder, stdout) = exported(&others.split(' ').collect::<Vec<_>>());
    assert_eq!(stdout, "saved x\nsaved seq2seq.py\n");
    let loader = fs::read_to_string(folder.path().join("seq2seq.py")).unwrap();
    assert_eq!(loader, fs::read_to_string(LOADER).unwrap());
    let metadata = header(&folder.path().join("x"))["__metadata__"].to_string();
    assert!(metadata.contains(r#"\"max_len\":77,"#), "{metadata}");
}

#[test]
fn what_cannot_be_exported_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fail(
        folder.path(),
        &["export", "--model", "none"],
        "no trained model is there",
    );
    let run = trained().0.to_str().unwrap();
    let args = ["export", "--model", run, "--output", "none/x"];
    fail(folder.path(), &args, "cannot write none/x");
    assert!(program::files(folder.path()).is_empty());
}

/// As the loader's own documentation has it.
#[test]
fn the_loader_is_a_program() {
    let (folder, _) = exported(&[]);
    let texts = ["abc", "zyxwvut"];
    let run = |args: &[&str]| {
        let mut python = python()?;
        python.current_dir(&folder).arg(LOADER);
        Some(python.arg("model.safetensors").args(args).output().unwrap())
    };
    let Some(output) = run(&texts) else { return };
    let translate = ["translate", "--model", ".", texts[0], texts[1]];
    assert_eq!(good(&texts, output), succeed(&trained().0, &translate));
    for (texts, error) in [
        (
            &["--score", "abc"][..],
            "expected SOURCE TAB TARGET, found 'abc'",
        ),
        (&["aB"], "unknown token 'B' at position 2"),
        (
            &[" "],
            "the text to translate: expected at least one token, found none",
        ),
    ] {
        let output = run(texts).unwrap();
        let [stdout, stderr] = program::written(texts, &output, 1);
        assert_eq!((stdout.as_str(), stderr), ("", format!("error: {error}\n")));
    }
}
