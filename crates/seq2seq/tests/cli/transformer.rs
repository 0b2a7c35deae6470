//! A Transformer in the program: trained, resumed, used, and what is refused with it.

use std::fs;
use std::path::Path;

use attention_tests::assert_says;

use crate::program::{
    Folder, TRAIN_TRANSFORMER, copied, edit, epochs, fail, first_line, manifest, misuse,
    resume_args, rows, succeed,
};

#[test]
fn a_transformer_is_trained_resumed_and_used() {
    let folder = &Folder::new();
    let args = format!("{TRAIN_TRANSFORMER} --heads 2 --feed-forward 12 --out run");
    let stdout = succeed(folder, &args);
    assert_eq!(epochs(&stdout), ["1/1"]);
    let settings = &manifest(&folder.join("run"))["settings"];
    assert_eq!(settings["attention"], "dot");
    assert_eq!(settings["train"]["warmup"], 400);
    let model = &settings["model"];
    assert_eq!(model["kind"], "transformer");
    let sizes = ["hidden_size", "heads", "layers", "feed_forward_size"].map(|name| &model[name]);
    assert_eq!(sizes, [8, 2, 2, 12]);

    let stdout = succeed(folder, &resume_args("2", ""));
    assert_eq!(epochs(&stdout), ["2/2"]);
    assert_says(&stdout, first_line(&succeed(folder, "eval --model run")));
    let translation = succeed(folder, "translate abc --model run");
    assert_eq!(translation.lines().count(), 1);
    attends(folder);
}

/// The attention of a layer and of a head is drawn.
fn attends(folder: &Path) {
    let picture = |others: &str| {
        let args = format!("attend cab --model run --output x.svg {others}");
        let stdout = succeed(folder, &args);
        // The end of the source is a key, whose name stands upright.
        assert_says(&stdout, "c a b >");
        fs::read_to_string(folder.join("x.svg")).unwrap()
    };
    let last = picture("");
    assert_eq!(last, picture("--layer 2"));
    let of_heads = ["--head 1", "--head 2"].map(picture);
    assert_ne!(of_heads[0], of_heads[1]);
    assert_ne!(last, picture("--layer 1"));
    assert_ne!(of_heads[0], picture("--layer 1 --head 1"));
    for (option, number) in [("layer", 0), ("layer", 3), ("head", 0), ("head", 3)] {
        let args = format!("attend cab --model run --{option} {number}");
        let expected =
            format!("to look at: expected 1 to 2, the {option}s of the model, found {number}");
        fail(folder, &args, &expected);
    }
}

#[test]
fn a_recurrent_model_has_no_layers_and_heads_to_look_at() {
    let (folder, _) = &copied();
    for option in ["--layer", "--head"] {
        let args = format!("attend cab --model run {option} 1");
        let message = "the layer and the head to look at: expected a run of --model transformer, found one of \
                       --model rnn";
        fail(folder, &args, message);
    }
}

#[test]
fn settings_of_the_other_model_are_refused() {
    let folder = &Folder::new();
    let refused = |args: &str, message: &str| {
        fail(folder, &format!("train reverse --out run {args}"), message);
        assert!(!folder.join("run").exists());
    };
    for args in ["--cell gru", "--embedding 8", "--unidirectional"] {
        let option = args.split(' ').next().unwrap();
        let message = format!("{option}: expected --model rnn, found --model transformer");
        refused(&format!("--model transformer {args}"), &message);
    }
    for option in ["--heads", "--feed-forward"] {
        let message = format!("{option}: expected --model transformer, found --model rnn");
        refused(&format!("{option} 2"), &message);
        refused(&format!("--model rnn {option} 2"), &message);
    }
    for attention in "kernel sparse heads location coverage monotonic".split(' ') {
        let message = format!(
            "the attention: expected a score for the heads of a transformer (additive, dot, normalized, concat, \
             bilinear, biaffine, projected, cosine, qk-norm, gaussian), found {attention}"
        );
        let args = format!("--model transformer --attention {attention}");
        refused(&args, &message);
    }
    let table = "
--heads 3 | the number of heads: expected a divisor of the hidden size 128, found 3
--feed-forward 0 | the feed-forward size: expected at least 1, found 0
--layers 0 | the number of layers: expected at least 1, found 0
";
    for [args, message] in rows(table) {
        refused(&format!("--model transformer {args}"), message);
    }
    misuse("train --model cnn", "[possible values: rnn, transformer]");
}

/// As runs were before there were Transformers.
#[test]
fn a_run_that_names_no_model_is_of_a_recurrent_one() {
    let (folder, run) = &copied();
    let translate = |run: &Path| succeed(run, "translate abc --model .");
    let before = translate(run);
    edit(run, "\"kind\": \"rnn\",", "");
    edit(run, "\"warmup\": 0,", "");
    assert_eq!(translate(run), before);
    let stdout = succeed(folder, &resume_args("3", "--threads 1"));
    assert_eq!(epochs(&stdout), ["3/3"]);
    assert_eq!(manifest(run)["settings"]["model"]["kind"], "rnn");
}
