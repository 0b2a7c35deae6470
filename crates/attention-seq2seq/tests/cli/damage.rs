//! Damaged files are errors of one line, with exit code 2.

use std::fs;
use std::path::Path;

use crate::program::{
    copied, edit, epochs, fail, files, model_file, replace, resume_args, succeed,
};

/// Each damage to a run, and the error of `translate`.
#[test]
fn a_damaged_model_is_an_error_of_one_line() {
    fn cut(file: &Path, bytes: usize) {
        let content = fs::read(file).unwrap();
        assert!(content.len() > bytes);
        fs::write(file, &content[..bytes]).unwrap();
    }
    type Damage = fn(&Path);
    let damages: [(Damage, &str); 20] = [
        (|run| cut(&model_file(run), 0), "run/checkpoint/model-"),
        (|run| cut(&model_file(run), 7), "run/checkpoint/model-"),
        (|run| cut(&model_file(run), 900), "run/checkpoint/model-"),
        (
            |run| {
                let file = model_file(run);
                cut(&file, fs::read(&file).unwrap().len() - 1);
            },
            "run/checkpoint/model-",
        ),
        (
            |run| fs::write(model_file(run), [7; 5000]).unwrap(),
            "run/checkpoint/model-",
        ),
        (
            |run| fs::rename(run.join("checkpoint/optim-2.bpk"), model_file(run)).unwrap(),
            "run/checkpoint/model-",
        ),
        (
            |run| {
                fs::remove_dir_all(run.join("checkpoint")).unwrap();
            },
            "cannot read run/checkpoint/model-",
        ),
        (
            |run| edit(run, "\"hidden_size\": 8", "\"hidden_size\": 10"),
            "run/checkpoint/model-",
        ),
        (
            |run| edit(run, "\"hidden_size\": 8", "\"hidden_size\": 9"),
            "run/run.json: the hidden size: expected even, half for each direction of the encoder, found 9",
        ),
        (
            |run| edit(run, "\"layers\": 1", "\"layers\": 0"),
            "run/run.json: the number of layers: expected at least 1, found 0",
        ),
        (
            |run| edit(run, "\"layers\": 1", "\"layers\": 100000000000"),
            "run/run.json: the number of layers: expected at most 1024, found 100000000000",
        ),
        (
            |run| edit(run, "\"max_len\": 27", "\"max_len\": 18446744073709551615"),
            "run/run.json: the length of outputs: expected at most 1000000 tokens, found 18446744073709551615",
        ),
        (
            |run| edit(run, "\"dropout\": 0.0", "\"dropout\": 2.0"),
            "run/run.json: the dropout: expected at least 0 and less than 1, found 2",
        ),
        (
            |run| edit(run, "\"additive\"", "\"dot\""),
            "run/checkpoint/model-",
        ),
        (
            |run| edit(run, "\"format\": 4", "\"format\": 9"),
            "run/run.json: expected a run of format 4, found format 9: train again with this version",
        ),
        (
            // What another format has besides is not looked at.
            |run| fs::write(run.join("run.json"), "{\"format\": 1}").unwrap(),
            "run/run.json: expected a run of format 4, found format 1: train again with this version",
        ),
        (
            |run| cut(&run.join("run.json"), 99),
            "run/run.json is not the expected JSON: ",
        ),
        (
            |run| {
                edit(
                    run,
                    "\"source_vocab_size\": 30",
                    "\"source_vocab_size\": 29",
                )
            },
            "run/run.json: the model expects 29 source tokens, the vocabulary has 30",
        ),
        (
            |run| edit(run, "\"<eos>\"", "\"<end>\""),
            "run/run.json is not the expected JSON: expected the first tokens to be ",
        ),
        (
            |run| replace(&run.join("run.json"), "\"layers\": 1", "\"layers\": 2"),
            "run/run.json: it was changed: expected the CRC-32 ",
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
    let args = resume_args("3", &["--threads", "1"]);
    for part in ["model", "optim"] {
        let (folder, run) = copied();
        let name = format!("checkpoint/{part}-2.bpk");
        fs::write(run.join(&name), "not what it was").unwrap();
        fail(
            folder.path(),
            &args,
            &format!("cannot use the model run/{name}: "),
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
    edit(&run, "\"hidden_size\": 8", "\"hidden_size\": 10");
    fail(
        folder.path(),
        &args,
        "cannot use the model run/checkpoint/model-2.bpk: ",
    );
}
