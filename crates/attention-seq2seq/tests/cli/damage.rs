//! Damaged files are errors of one line, with exit code 2.

use std::fs;
use std::path::Path;

use crate::program::{copied, epochs, fail, files, replace, succeed};

/// Each damage to a run, and the error of `translate`.
#[test]
fn a_damaged_model_is_an_error_of_one_line() {
    fn cut(file: &Path, bytes: usize) {
        let content = fs::read(file).unwrap();
        assert!(content.len() > bytes);
        fs::write(file, &content[..bytes]).unwrap();
    }
    type Damage = fn(&Path);
    let damages: [(Damage, &str); 21] = [
        (|run| cut(&run.join("model.bpk"), 0), "run/model.bpk: "),
        (|run| cut(&run.join("model.bpk"), 7), "run/model.bpk: "),
        (|run| cut(&run.join("model.bpk"), 900), "run/model.bpk: "),
        (
            |run| {
                let file = run.join("model.bpk");
                cut(&file, fs::read(&file).unwrap().len() - 1);
            },
            "run/model.bpk: ",
        ),
        (
            |run| fs::write(run.join("model.bpk"), [7; 5000]).unwrap(),
            "run/model.bpk: ",
        ),
        (
            |run| fs::rename(run.join("checkpoint/optim-2.bpk"), run.join("model.bpk")).unwrap(),
            "run/model.bpk: ",
        ),
        (
            |run| {
                fs::remove_file(run.join("model.bpk")).unwrap();
                fs::remove_dir_all(run.join("checkpoint")).unwrap();
            },
            "its training was stopped before the first checkpoint; train again with --resume",
        ),
        (
            |run| {
                replace(
                    &run.join("run.json"),
                    "\"hidden_size\": 8",
                    "\"hidden_size\": 10",
                )
            },
            "run/model.bpk: ",
        ),
        (
            |run| {
                replace(
                    &run.join("run.json"),
                    "\"hidden_size\": 8",
                    "\"hidden_size\": 9",
                )
            },
            "run/run.json: the hidden size: expected even, half for each direction of the encoder, found 9",
        ),
        (
            |run| replace(&run.join("run.json"), "\"layers\": 1", "\"layers\": 0"),
            "run/run.json: the number of layers: expected at least 1, found 0",
        ),
        (
            |run| {
                replace(
                    &run.join("run.json"),
                    "\"layers\": 1",
                    "\"layers\": 100000000000",
                )
            },
            "run/run.json: the number of layers: expected at most 1024, found 100000000000",
        ),
        (
            |run| {
                replace(
                    &run.join("run.json"),
                    "\"max_len\": 27",
                    "\"max_len\": 18446744073709551615",
                )
            },
            "run/run.json: the length of outputs: expected at most 1000000 tokens, found 18446744073709551615",
        ),
        (
            |run| {
                replace(
                    &run.join("run.json"),
                    "\"dropout\": 0.0",
                    "\"dropout\": 2.0",
                )
            },
            "run/run.json: the dropout: expected at least 0 and less than 1, found 2",
        ),
        (
            |run| replace(&run.join("run.json"), "\"additive\"", "\"dot\""),
            "run/model.bpk: ",
        ),
        (
            |run| replace(&run.join("run.json"), "\"format\": 2", "\"format\": 9"),
            "run/run.json: expected settings of format 2, found format 9: train again with this version",
        ),
        (
            // What another version has besides is not looked at.
            |run| fs::write(run.join("run.json"), "{\"format\": 1}").unwrap(),
            "run/run.json: expected settings of format 2, found format 1: train again with this version",
        ),
        (
            |run| cut(&run.join("run.json"), 99),
            "run/run.json is not the expected JSON: ",
        ),
        (
            |run| {
                replace(
                    &run.join("run.json"),
                    "\"source_vocab_size\": 30",
                    "\"source_vocab_size\": 29",
                )
            },
            "run/source.vocab.json holds no usable vocabulary: the model expects 29 tokens, the file has 30",
        ),
        (
            |run| cut(&run.join("source.vocab.json"), 99),
            "run/source.vocab.json is not the expected JSON: ",
        ),
        (
            |run| replace(&run.join("target.vocab.json"), "\"<eos>\"", "\"<end>\""),
            "run/target.vocab.json holds no usable vocabulary: ",
        ),
        (
            |run| fs::remove_file(run.join("target.vocab.json")).unwrap(),
            "cannot read run/target.vocab.json: ",
        ),
    ];
    for (damage, message) in damages {
        let (folder, run) = copied();
        damage(&run);
        let before = files(&run);
        fail(
            folder.path(),
            &["translate", "abc", "--model", "run"],
            message,
        );
        assert_eq!(files(&run), before);
    }
}

#[test]
fn a_run_does_not_go_on_from_a_damaged_checkpoint() {
    let args = [
        "train",
        "--resume",
        "--out",
        "run",
        "--threads",
        "1",
        "--epochs",
        "3",
    ];
    for part in ["model", "optim", "scheduler"] {
        let (folder, run) = copied();
        let name = format!("checkpoint/{part}-2.bpk");
        fs::write(run.join(&name), "not what it was").unwrap();
        fail(
            folder.path(),
            &args,
            &format!("cannot use the checkpoint run/{name}: "),
        );
        fail(
            folder.path(),
            &args,
            "; remove it to go on from an earlier checkpoint",
        );
        // Which is good advice.
        fs::remove_file(run.join(&name)).unwrap();
        assert_eq!(epochs(&succeed(folder.path(), &args)), ["2/3", "3/3"]);
    }
    let (folder, run) = copied();
    replace(
        &run.join("run.json"),
        "\"hidden_size\": 8",
        "\"hidden_size\": 10",
    );
    fail(
        folder.path(),
        &args,
        "cannot use the checkpoint run/checkpoint/model-2.bpk: ",
    );
}
