//! A Transformer in the program: trained, resumed, used, and what is refused with it.

use std::fs;
use std::path::Path;

use crate::program::{
    self, copied, edit, epochs, fail, first_line, manifest, resume_args, run_with_usage_error,
    succeed,
};

/// `seq2seq train reverse` of a tiny Transformer, and other arguments.
fn train_args<'a>(epochs: &'a str, others: &[&'a str]) -> Vec<&'a str> {
    let sizes = "--model transformer --hidden 8 --heads 2 --feed-forward 12 --train-pairs 64 --valid-pairs 10 \
                 --batch-size 32 --threads 1 --out run";
    let mut args = vec!["train", "reverse", "--epochs", epochs];
    args.extend(sizes.split_whitespace());
    args.extend(others);
    args
}

#[test]
fn a_transformer_is_trained_resumed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stdout = succeed(folder, &train_args("1", &[]));
    assert_eq!(epochs(&stdout), ["1/1"]);
    let settings = &manifest(&folder.join("run"))["settings"];
    assert_eq!(settings["attention"], "dot");
    assert_eq!(settings["train"]["warmup"], 400);
    let model = &settings["model"];
    assert_eq!(model["kind"], "transformer");
    for (name, value) in [
        ("hidden_size", 8),
        ("heads", 2),
        ("layers", 2),
        ("feed_forward_size", 12),
    ] {
        assert_eq!(model[name], value, "{name}");
    }

    let stdout = succeed(folder, &resume_args("2", &[]));
    assert_eq!(epochs(&stdout), ["2/2"]);
    let evaluation = succeed(folder, &["eval", "--model", "run"]);
    assert!(
        stdout.contains(first_line(&evaluation)),
        "{evaluation}: {stdout}"
    );
    let translation = succeed(folder, &["translate", "abc", "--model", "run"]);
    assert_eq!(translation.lines().count(), 1);
}

#[test]
fn the_attention_of_a_layer_and_of_a_head_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &train_args("1", &[]));
    let picture = |others: &[&str]| {
        let args = ["attend", "cab", "--model", "run", "--output", "x.svg"];
        let stdout = succeed(folder, &[&args, others].concat());
        // The end of the source is a key, whose name stands upright.
        assert!(stdout.contains("c a b >"), "{stdout}");
        fs::read_to_string(folder.join("x.svg")).unwrap()
    };
    let last = picture(&[]);
    assert_eq!(last, picture(&["--layer", "2"]));
    let of_heads = ["1", "2"].map(|head| picture(&["--head", head]));
    assert_ne!(of_heads[0], of_heads[1]);
    assert_ne!(last, picture(&["--layer", "1"]));
    assert_ne!(of_heads[0], picture(&["--layer", "1", "--head", "1"]));

    let refused = |option: &str, number: &str, message: &str| {
        let args = ["attend", "cab", "--model", "run", option, number];
        fail(folder, &args, message);
    };
    for number in ["0", "3"] {
        let message =
            format!("to look at: expected 1 to 2, the layers of the model, found {number}");
        refused("--layer", number, &message);
        let message =
            format!("to look at: expected 1 to 2, the heads of the model, found {number}");
        refused("--head", number, &message);
    }
}

#[test]
fn a_recurrent_model_has_no_layers_and_heads_to_look_at() {
    let (folder, _) = copied();
    for option in ["--layer", "--head"] {
        fail(
            folder.path(),
            &["attend", "cab", "--model", "run", option, "1"],
            "the layer and the head to look at: expected a run of --model transformer, found one of --model rnn",
        );
    }
}

#[test]
fn settings_of_the_other_model_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |args: &[&str], message: &str| {
        fail(
            folder,
            &[&["train", "reverse", "--out", "run"], args].concat(),
            message,
        );
        assert!(!folder.join("run").exists());
    };
    for option in [
        &["--cell", "gru"][..],
        &["--embedding", "8"],
        &["--unidirectional"],
    ] {
        let message = format!(
            "{}: expected --model rnn, found --model transformer",
            option[0]
        );
        refused(&[&["--model", "transformer"], option].concat(), &message);
    }
    for option in ["--heads", "--feed-forward"] {
        let message = format!("{option}: expected --model transformer, found --model rnn");
        refused(&[option, "2"], &message);
        refused(&["--model", "rnn", option, "2"], &message);
    }
    for attention in [
        "kernel",
        "sparse",
        "heads",
        "location",
        "coverage",
        "monotonic",
    ] {
        let message = format!(
            "the attention: expected a score for the heads of a transformer (additive, dot, normalized, concat, \
             bilinear, biaffine, projected, cosine, qk-norm, gaussian), found {attention}"
        );
        refused(
            &["--model", "transformer", "--attention", attention],
            &message,
        );
    }
    for (option, number, message) in [
        (
            "--heads",
            "3",
            "the number of heads: expected a divisor of the hidden size 128, found 3",
        ),
        (
            "--feed-forward",
            "0",
            "the feed-forward size: expected at least 1, found 0",
        ),
        (
            "--layers",
            "0",
            "the number of layers: expected at least 1, found 0",
        ),
    ] {
        refused(&["--model", "transformer", option, number], message);
    }
    let empty = tempfile::tempdir().unwrap();
    let usage = run_with_usage_error(empty.path(), &["train", "--model", "cnn"]);
    assert!(
        usage.contains("[possible values: rnn, transformer]"),
        "{usage}"
    );
}

#[test]
fn a_run_goes_on_with_its_own_model() {
    let (folder, run) = copied();
    for kept in [
        &["--model", "rnn"][..],
        &["--heads", "2"],
        &["--feed-forward", "9"],
        &["--warmup", "7"],
    ] {
        let args = [&resume_args("3", &[])[..], kept].concat();
        let [_, stderr] = program::written(&args, &program::run(folder.path(), &args), 2);
        assert!(stderr.contains("cannot be used with"), "{kept:?}: {stderr}");
    }
    assert_eq!(manifest(&run)["settings"]["model"]["kind"], "rnn");
}

/// As runs were before there were Transformers.
#[test]
fn a_run_that_names_no_model_is_of_a_recurrent_one() {
    let (folder, run) = copied();
    let translate = |run: &Path| succeed(run, &["translate", "abc", "--model", "."]);
    let before = translate(&run);
    edit(&run, "\"kind\": \"rnn\",", "");
    edit(&run, "\"warmup\": 0,", "");
    assert_eq!(translate(&run), before);
    let stdout = succeed(folder.path(), &resume_args("3", &["--threads", "1"]));
    assert_eq!(epochs(&stdout), ["3/3"]);
    assert_eq!(manifest(&run)["settings"]["model"]["kind"], "rnn");
}
