//! Damaged files are errors of one line, with exit code 2.

use std::fs;
use std::path::Path;

use crate::program::{
    copied, edit, epochs, fail, files, model_file, replace, resume_args, rows, succeed,
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
    const MODEL: &str = "run/checkpoint/model-";
    #[rustfmt::skip]
    let damages: [(Damage, &str); 9] = [
        (|run| cut(&model_file(run), 0), MODEL),
        (|run| cut(&model_file(run), 7), MODEL),
        (|run| cut(&model_file(run), 900), MODEL),
        (|run| cut(&model_file(run), fs::read(model_file(run)).unwrap().len() - 1), MODEL),
        (|run| fs::write(model_file(run), [7; 5000]).unwrap(), MODEL),
        (|run| fs::rename(run.join("checkpoint/optim-2.bpk"), model_file(run)).unwrap(), MODEL),
        (|run| fs::remove_dir_all(run.join("checkpoint")).unwrap(), "cannot read run/checkpoint/model-"),
        // Another format is refused, whatever else its file has.
        (|run| fs::write(run.join("run.json"), "{\"format\": 1}").unwrap(), "of format 4, found format 1: train again"),
        (|run| cut(&run.join("run.json"), 99), "run/run.json is not the expected JSON: "),
    ];
    let check = |damage: &dyn Fn(&Path), message: &str| {
        let (folder, run) = &copied();
        damage(run);
        let before = files(run);
        fail(folder, "translate abc --model run", message);
        assert_eq!(files(run), before);
    };
    for (damage, message) in damages {
        check(&damage, message);
    }
    let edits = r#"
"hidden_size": 8 | "hidden_size": 10 | run/checkpoint/model-
"hidden_size": 8 | "hidden_size": 9 | the hidden size: expected even, half for each direction of the encoder, found 9
"layers": 1 | "layers": 0 | run/run.json: the number of layers: expected at least 1, found 0
"layers": 1 | "layers": 100000000000 | run/run.json: the number of layers: expected at most 1024, found 100000000000
"max_len": 27 | "max_len": 18446744073709551615 | expected at most 1000000 tokens, found 18446744073709551615
"dropout": 0.0 | "dropout": 2.0 | run/run.json: the dropout: expected at least 0 and less than 1, found 2
"additive" | "dot" | run/checkpoint/model-
"format": 4 | "format": 9 | run/run.json: expected a run of format 4, found format 9: train again with this version
"source_vocab_size": 30 | "source_vocab_size": 29 | the model expects 29 source tokens, the vocabulary has 30
"<eos>" | "<end>" | run/run.json is not the expected JSON: expected the first tokens to be
"#;
    for [from, to, message] in rows(edits) {
        check(&|run| edit(run, from, to), message);
    }
    let changed = |run: &Path| replace(&run.join("run.json"), "\"layers\": 1", "\"layers\": 2");
    let message = "run/run.json: it was changed: expected the CRC-32 ";
    check(&changed, message);
}

#[test]
fn a_run_does_not_go_on_from_a_damaged_checkpoint() {
    let args = resume_args("3", "--threads 1");
    for part in ["model", "optim"] {
        let (folder, run) = &copied();
        let name = format!("checkpoint/{part}-2.bpk");
        fs::write(run.join(&name), "not what it was").unwrap();
        let changed = format!("cannot use the model run/{name}: ");
        for message in [&changed, "; remove it to go on from an earlier checkpoint"] {
            fail(folder, &args, message);
        }
        // Which is good advice.
        fs::remove_file(run.join(&name)).unwrap();
        assert_eq!(epochs(&succeed(folder, &args)), ["2/3", "3/3"]);
    }
    let (folder, run) = &copied();
    edit(run, "\"hidden_size\": 8", "\"hidden_size\": 10");
    let message = "cannot use the model run/checkpoint/model-2.bpk: ";
    fail(folder, &args, message);
}
