//! The program `seq2seq`: what it leaves on disk, what it prints, and how it fails.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use attention_core::DotProductScore;
use attention_seq2seq::device::{KNOWN, compiled_in};
use attention_seq2seq::run::RunDir;
use attention_seq2seq::train::Trainee;
use burn::module::Module;
use tempfile::TempDir;

/// A model and data that train in a second.
const TINY: [&str; 13] = [
    "--train-pairs",
    "64",
    "--valid-pairs",
    "10",
    "--batch-size",
    "32",
    "--embedding",
    "4",
    "--hidden",
    "8",
    "--threads",
    "1",
    "--epochs",
];

/// `seq2seq` in `folder`, not yet started.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seq2seq"));
    command.current_dir(folder).args(args);
    command
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

/// The standard output of a run that went well.
#[track_caller]
fn succeed(folder: &Path, args: &[&str]) -> String {
    good(args, run(folder, args))
}

#[track_caller]
fn good(args: &[&str], output: Output) -> String {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stdout}{stderr}");
    assert_eq!(stderr, "", "{args:?}");
    stdout
}

/// Expects exit code 2 and one line on the standard error, with `message` in it.
#[track_caller]
fn fail(folder: &Path, args: &[&str], message: &str) {
    bad(args, run(folder, args), message);
}

#[track_caller]
fn bad(args: &[&str], output: Output, message: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    assert!(stderr.contains(message), "{args:?}: {stderr}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `seq2seq train TASK` with a tiny model, and what is different.
fn train_args<'a>(task: &'a str, epochs: &'a str, others: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", task];
    args.extend(TINY);
    args.push(epochs);
    args.extend(others);
    args
}

/// Every file below `folder`, by its path.
fn files(folder: &Path) -> Vec<String> {
    fn collect(folder: &Path, root: &Path, files: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => collect(&path, root, files),
                false => {
                    let path = path.strip_prefix(root).unwrap();
                    files.push(path.to_str().unwrap().to_string());
                }
            }
        }
    }
    let mut all = Vec::new();
    collect(folder, folder, &mut all);
    all.sort();
    all
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(file), target).unwrap();
    }
}

/// A run of two epochs on the task `reverse`, and what the program printed. Tests read it, or change a copy.
fn trained() -> &'static (PathBuf, String) {
    static TRAINED: OnceLock<(PathBuf, String)> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trained");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let stdout = succeed(&folder, &train_args("reverse", "2", &["--out", "run"]));
        (folder.join("run"), stdout)
    })
}

/// A folder with a copy of [`trained`] as `run`.
fn copied() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    copy(&trained().0, &run);
    (folder, run)
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// The numbers of the epochs that were trained, as "3/4".
fn epochs(stdout: &str) -> Vec<&str> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("epoch"));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn training_leaves_a_whole_run() {
    let (run, stdout) = trained();
    let files = files(run);
    for file in [
        "attention.svg",
        "checkpoint/model-1.bpk",
        "checkpoint/model-2.bpk",
        "checkpoint/optim-2.bpk",
        "checkpoint/scheduler-2.bpk",
        "model.bpk",
        "run.json",
        "source.vocab.json",
        "target.vocab.json",
        "train/epoch-1/Loss.log",
        "valid/epoch-2/Exact_match.log",
    ] {
        assert!(
            files.contains(&file.to_string()),
            "{file} is not in {files:?}"
        );
    }
    assert!(!files.iter().any(|file| file.contains("tmp")), "{files:?}");
    assert_eq!(epochs(stdout), ["1/2", "2/2"]);
    check_kept_model(run, stdout);
    assert!(
        stdout
            .starts_with("64 training pairs, 10 validation pairs; 30 source and 30 target tokens;")
    );
    let config: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(config["model"]["hidden_size"], 8);
    assert_eq!(config["data"]["task"]["train"], 64);
    assert_eq!(config["attention"], "additive");
    assert!(
        fs::read_to_string(run.join("attention.svg"))
            .unwrap()
            .contains("</svg>")
    );
}

/// The model is the checkpoint that the program says it is.
#[track_caller]
fn check_kept_model(run: &Path, stdout: &str) {
    let (_, rest) = stdout.split_once("the model of epoch ").unwrap();
    let (epoch, _) = rest.split_once(',').unwrap();
    let checkpoint = fs::read(run.join(format!("checkpoint/model-{epoch}.bpk"))).unwrap();
    assert!(
        fs::read(run.join("model.bpk")).unwrap() == checkpoint,
        "{stdout}"
    );
}

/// `seq2seq translate` in `run`, with `lines` as its standard input.
fn translate_lines(run: &Path, lines: &[u8]) -> Output {
    let mut child = command(run, &["translate", "--model", "."])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn texts_are_translated_from_arguments_and_from_lines() {
    let (run, _) = trained();
    let texts = ["abc", "zyxwvut", "e"];
    let mut args = vec!["translate", "--model", "."];
    args.extend(texts);
    let stdout = succeed(run, &args);
    assert_eq!(stdout.lines().count(), 3);

    // Outputs stay in line with inputs, that may end as on Windows; the last one need not end.
    let output = translate_lines(run, b"abc\r\n\n   \nzyxwvut\ne");
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.splice(1..1, ["", ""]);
    assert_eq!(good(&args, output).lines().collect::<Vec<_>>(), lines);
    assert_eq!(
        succeed(run, &["translate", "--model", "."]),
        "",
        "no lines, no output"
    );
}

#[test]
fn an_evaluation_repeats_what_training_said() {
    let (run, stdout) = trained();
    let evaluation = succeed(run, &["eval", "--model", "."]);
    assert!(
        evaluation.starts_with("10 sources: exact match "),
        "{evaluation}"
    );
    assert_eq!(evaluation.lines().count(), 1);
    assert!(
        stdout.contains(&evaluation),
        "{evaluation} is not in {stdout}"
    );
}

#[test]
fn attention_is_drawn_and_saved() {
    let (run, _) = trained();
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [
        ("x.png", &b"\x89PNG"[..]),
        ("x.svg", b"<svg"),
        ("x.html", b"<!DOCTYPE html>"),
    ] {
        let file = folder.path().join(name);
        let file = file.to_str().unwrap();
        let stdout = succeed(run, &["attend", "cab", "--model", ".", "--output", file]);
        assert!(stdout.contains("c a b"), "{stdout}");
        assert!(stdout.ends_with(&format!("saved {file}\n")), "{stdout}");
        let bytes = fs::read(file).unwrap();
        let head = &bytes[..start.len()];
        assert!(head.eq_ignore_ascii_case(start), "{name}: {head:?}");
    }
    assert_eq!(files(folder.path()).len(), 3);
}

#[test]
fn a_finished_run_goes_on_only_to_more_epochs() {
    let (folder, run) = copied();
    let model = || fs::read(run.join("model.bpk")).unwrap();
    let before = model();
    let args = [
        "train",
        "--resume",
        "--out",
        "run",
        "--threads",
        "1",
        "--epochs",
    ];
    let stdout = succeed(folder.path(), &[&args[..], &["2"]].concat());
    assert!(epochs(&stdout).is_empty(), "{stdout}");
    assert!(model() == before, "another model is kept");

    let stdout = succeed(folder.path(), &[&args[..], &["4"]].concat());
    assert_eq!(epochs(&stdout), ["3/4", "4/4"]);
    assert!(run.join("checkpoint/model-4.bpk").exists());
    assert!(
        fs::read_to_string(run.join("run.json"))
            .unwrap()
            .contains("\"epochs\": 4")
    );
    check_kept_model(&run, &stdout);
    succeed(folder.path(), &["translate", "--model", "run", "abc"]);

    // The data may be named again, but other data is a mistake.
    let other = [&["train", "copy"][..], &args[1..], &["5"]].concat();
    fail(
        folder.path(),
        &other,
        "the run in run: expected to go on with its task reverse, found task copy",
    );
    let same = [&["train", "reverse"][..], &args[1..], &["5"]].concat();
    assert_eq!(epochs(&succeed(folder.path(), &same)), ["5/5"]);
}

#[test]
fn a_run_is_overwritten_only_when_asked_to() {
    let (folder, run) = copied();
    let before: Vec<Vec<u8>> = files(&run)
        .iter()
        .map(|file| fs::read(run.join(file)).unwrap())
        .collect();
    fail(
        folder.path(),
        &train_args("copy", "1", &["--out", "run"]),
        "the folder run: expected a folder without a run (name another with --out, or add --resume or --overwrite)",
    );
    let after: Vec<Vec<u8>> = files(&run)
        .iter()
        .map(|file| fs::read(run.join(file)).unwrap())
        .collect();
    assert!(before == after, "the run was touched");

    let args = train_args("copy", "1", &["--out", "run", "--overwrite"]);
    assert_eq!(epochs(&succeed(folder.path(), &args)), ["1/1"]);
    assert!(!run.join("checkpoint/model-2.bpk").exists());
    assert!(
        fs::read_to_string(run.join("run.json"))
            .unwrap()
            .contains("\"copy\"")
    );
    succeed(folder.path(), &["translate", "--model", "run", "abc"]);

    let both = run_with_usage_error(folder.path(), &["train", "--resume", "--overwrite"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

/// What clap says, in as many lines as it likes.
#[track_caller]
fn run_with_usage_error(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(
        files(folder).is_empty() || args.contains(&"--overwrite"),
        "{args:?}"
    );
    text(&output.stderr)
}

#[test]
fn usage_errors_have_the_same_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &[][..],
        &["tarin"],
        &["train", "reverse", "--hidden", "many"],
        &["train", "reverse", "--hidden", "-1"],
        &["train", "reverse", "--attention", "none"],
        &["train", "reverse", "--data", "x.tsv"],
        &["train", "--valid", "x.tsv"],
        &["train", "--data", "x.tsv", "--columns", "1,1"],
        &["train", "--data", "x.tsv", "--source-tokens", "words"],
        &["attend"],
    ] {
        let stderr = run_with_usage_error(folder.path(), args);
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    }
    assert!(succeed(folder.path(), &["--help"]).contains("Usage"));
    assert!(succeed(folder.path(), &["train", "--help"]).contains("--resume"));
    assert!(succeed(folder.path(), &["--version"]).starts_with("seq2seq "));
}

/// Words with their letters, the letters first: 40 to learn, and 4 to validate, one with a letter never learned.
fn word_files(folder: &Path) {
    let word = |at: usize| -> String {
        let letter = |by: usize| char::from(b'a' + (at / by % 4) as u8);
        [letter(1), letter(4), letter(16)].into_iter().collect()
    };
    let line = |word: String| {
        let letters: Vec<String> = word.to_uppercase().chars().map(String::from).collect();
        format!("{}\t{word}\n", letters.join(" "))
    };
    let train: String = (0..40).map(word).map(line).collect();
    let valid: String = ["dz".to_string()]
        .into_iter()
        .chain((61..64).map(word))
        .map(line)
        .collect();
    fs::write(folder.join("words.tsv"), train).unwrap();
    fs::write(folder.join("valid.tsv"), valid).unwrap();
}

#[test]
fn a_file_of_pairs_is_learned_in_the_columns_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    word_files(folder);
    let sizes = [
        "--embedding",
        "4",
        "--hidden",
        "8",
        "--epochs",
        "1",
        "--threads",
        "1",
    ];
    let files = [
        "--data",
        "words.tsv",
        "--valid",
        "valid.tsv",
        "--columns",
        "2,1",
    ];
    let args = [&["train"][..], &files, &sizes].concat();
    let stdout = succeed(folder, &args);
    assert!(
        stdout.starts_with("40 training pairs, 4 validation pairs; 8 source and 8 target tokens;")
    );
    let run = folder.join("runs/words");
    let config: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    let options = &config["data"]["tsv"]["options"];
    assert_eq!(
        options["columns"],
        serde_json::json!({"source": 2, "target": 1})
    );
    assert_eq!(
        (&options["source_tokens"], &options["target_tokens"]),
        (&"chars".into(), &"spaces".into())
    );

    let model = ["--model", "runs/words"];
    let output = succeed(folder, &[&["translate", "cab"][..], &model].concat());
    let known = |token: &str| ["A", "B", "C", "D", "<unk>"].contains(&token);
    assert!(output.split_whitespace().all(known), "{output}");
    fail(
        folder,
        &[&["translate", "dz"][..], &model].concat(),
        "unknown token \"z\" at position 2; expected one of: \"a\" \"b\" \"c\" \"d\"",
    );
    let validation = succeed(folder, &[&["eval"][..], &model].concat());
    let file = succeed(
        folder,
        &[&["eval", "--data", "valid.tsv"][..], &model].concat(),
    );
    assert_eq!(file, validation);
    let elsewhere = tempfile::tempdir().unwrap();
    let model = run.to_str().unwrap();
    let moved = succeed(elsewhere.path(), &["eval", "--model", model]);
    assert_eq!(moved, validation, "evaluated in another folder");
    assert!(file.starts_with("4 sources: "), "{file}");

    // Without --valid some are held out, and --out names the folder.
    let args = [
        &[
            "train",
            "--data",
            "words.tsv",
            "--columns",
            "2,1",
            "--out",
            "held",
        ][..],
        &sizes,
    ]
    .concat();
    assert!(succeed(folder, &args).starts_with("38 training pairs, 2 validation pairs;"));
}

#[test]
fn a_seed_decides_everything_on_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = |out: &str, seed: &str| {
        let others = [
            "--out",
            out,
            "--seed",
            seed,
            "--attention",
            "dot",
            "--layers",
            "2",
            "--unidirectional",
            "--dropout",
            "0.1",
        ];
        succeed(folder, &train_args("copy", "2", &others));
        let run = RunDir::new(folder.join(out));
        let config = run.load_config().unwrap();
        let model = config.model.init::<DotProductScore>(&support::device());
        let model = Trainee::new(model).try_load_file(run.model_file());
        let evaluation = succeed(folder, &["eval", "--model", out, "--threads", "1"]);
        (support::parameters(&model.unwrap()), evaluation)
    };
    let first = train("first", "3");
    let again = train("again", "3");
    assert!(first == again, "the same seed, another model");
    assert!(first.0 != train("other", "4").0, "the seed decides nothing");
}

#[test]
fn bad_settings_of_training_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("bad.tsv"), "a\tb\nab\nc\td\n").unwrap();
    fs::write(folder.join("empty.tsv"), "\n\n").unwrap();
    fs::write(folder.join("one.tsv"), "a\tb\na\tc\n").unwrap();
    let before = files(folder);
    let left_out = KNOWN
        .into_iter()
        .find(|name| !compiled_in().contains(name))
        .unwrap();
    for (args, message) in [
        (
            &["revers"][..],
            "unknown task \"revers\"; expected one of: dates, reverse, copy",
        ),
        (
            &["reverse", "--device", "tpu"],
            "unknown device \"tpu\"; this build has: ",
        ),
        (
            &["reverse", "--device", left_out],
            "is not part of this build, which has: ",
        ),
        (
            &["reverse", "--threads", "0"],
            "--threads: expected at least 1, set once, found 0",
        ),
        (
            &["reverse", "--hidden", "15"],
            "the hidden size: expected even, half for each direction of the encoder, found 15",
        ),
        (
            &["reverse", "--hidden", "0"],
            "the hidden size: expected at least 1, found 0",
        ),
        (
            &["reverse", "--embedding", "0"],
            "the embedding size: expected at least 1, found 0",
        ),
        (
            &["reverse", "--layers", "0"],
            "the number of layers: expected at least 1, found 0",
        ),
        (
            &["reverse", "--epochs", "0"],
            "the number of epochs: expected at least 1, found 0",
        ),
        (
            &["reverse", "--batch-size", "0"],
            "the batch size: expected at least 1, found 0",
        ),
        (
            &["reverse", "--patience", "0"],
            "the patience: expected at least 1, found 0",
        ),
        (
            &["reverse", "--dropout", "1.5"],
            "the dropout: expected at least 0 and less than 1, found 1.5",
        ),
        (
            &["reverse", "--dropout", "nan"],
            "the dropout: expected at least 0 and less than 1, found NaN",
        ),
        (
            &["reverse", "--learning-rate", "0"],
            "the learning rate: expected more than 0 and at most 1, found 0",
        ),
        (
            &["reverse", "--learning-rate", "nan"],
            "the learning rate: expected more than 0 and at most 1, found NaN",
        ),
        (
            &["reverse", "--clip", "0"],
            "the clipping norm: expected more than 0, found 0",
        ),
        (
            &["reverse", "--train-pairs", "0"],
            "there are no training pairs; ",
        ),
        (
            &["reverse", "--valid-pairs", "0"],
            "there are no validation pairs; ",
        ),
        (&["--data", "none.tsv"], "cannot read none.tsv: "),
        (&["--data", "."], "cannot read .: "),
        (
            &["--data", "bad.tsv"],
            "bad.tsv:2: expected a target in column 2, found 1 column divided by TAB",
        ),
        (&["--data", "empty.tsv"], "empty.tsv holds no line; "),
        (
            &["--data", "one.tsv"],
            "expected at least two different sources, found one",
        ),
        (&["--data", "one.tsv", "--valid", "bad.tsv"], "bad.tsv:2: "),
        (
            &["--data", "one.tsv", "--columns", "3,1"],
            "one.tsv:1: expected a source in column 3",
        ),
    ] {
        let args = [&["train", "--out", "run"][..], args].concat();
        fail(folder, &args, message);
        assert_eq!(files(folder), before, "{args:?} left something");
        assert!(!folder.join("run").exists(), "{args:?} left a folder");
    }
    for out in ["bad.tsv", "bad.tsv/run"] {
        fail(
            folder,
            &train_args("reverse", "1", &["--out", out]),
            "cannot create bad.tsv",
        );
    }
    fs::create_dir_all(folder.join("mine/train")).unwrap();
    fs::write(folder.join("mine/train/data"), "").unwrap();
    fail(
        folder,
        &train_args("reverse", "1", &["--out", "mine"]),
        "the folder mine: expected a folder with room for a run (name another with --out), found something else's \"train\" in it",
    );
    assert_eq!(files(&folder.join("mine")), ["train/data"]);
    fs::remove_dir_all(folder.join("mine")).unwrap();
    fail(
        folder,
        &["train", "reverse", "--resume", "--out", "run"],
        "cannot use the checkpoint run: no trained model is there; train one first, or name another folder",
    );
    assert_eq!(files(folder), before);
}

#[test]
fn bad_questions_to_a_model_are_told_in_one_line() {
    let (run, _) = trained();
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/x.png");
    let unknown = folder.path().join("x.bmp");
    let (missing, unknown) = (missing.to_str().unwrap(), unknown.to_str().unwrap());
    let left_out = KNOWN
        .into_iter()
        .find(|name| !compiled_in().contains(name))
        .unwrap();
    for (args, message) in [
        (
            &["translate", "abC"][..],
            "unknown token \"C\" at position 3; did you mean \"c\"?",
        ),
        (
            &["translate", "abc", "4"],
            "unknown token \"4\" at position 1; expected one of: ",
        ),
        (
            &["translate", ""],
            "the text to translate: expected at least one token, found none",
        ),
        (&["translate", "a b"], "unknown token \" \" at position 2; "),
        (
            &["translate", "abc", "--device", left_out],
            "is not part of this build",
        ),
        (
            &["translate", "abc", "--threads", "0"],
            "--threads: expected at least 1, set once, found 0",
        ),
        (
            &["attend", ""],
            "the text to translate: expected at least one token, found none",
        ),
        (&["attend", "ab\n"], "unknown token \"\\n\" at position 3; "),
        (
            &["attend", "abc", "--output", unknown],
            "does not end in a supported format: use .svg, .png, .html",
        ),
        (&["attend", "abc", "--output", missing], "does not exist"),
        (
            &["eval", "--data", "x.tsv"],
            "--data: expected a model that was trained on a file",
        ),
    ] {
        fail(run, &[args, &["--model", "."]].concat(), message);
    }
    for args in [&["translate", "abc"][..], &["attend", "abc"], &["eval"]] {
        fail(
            run,
            &[args, &["--model", "none"]].concat(),
            "cannot use the checkpoint none: no trained model is there; train one first, or name another folder",
        );
        // The default model is told by its folder too.
        fail(
            folder.path(),
            args,
            "cannot use the checkpoint runs/dates: no trained model is there",
        );
    }
    assert!(files(folder.path()).is_empty());

    for (lines, message) in [
        (
            &b"abc\n\nx yz\nabc\n"[..],
            "line 3 of the standard input: unknown token \" \" at position 2; ",
        ),
        (b"abc\n\nab\xff\n", "cannot read the standard input: "),
    ] {
        let output = translate_lines(run, lines);
        assert_eq!(
            text(&output.stdout).lines().count(),
            2,
            "the lines before are translated"
        );
        bad(&["translate"], output, message);
    }
}

/// Each damage to a run, and what `translate` says about it.
#[test]
fn a_damaged_model_is_told_in_one_line() {
    fn cut(file: &Path, bytes: usize) {
        let content = fs::read(file).unwrap();
        assert!(content.len() > bytes);
        fs::write(file, &content[..bytes]).unwrap();
    }
    type Damage = fn(&Path);
    let damages: [(Damage, &str); 18] = [
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
            |run| replace(&run.join("run.json"), "\"format\": 1", "\"format\": 9"),
            "run/run.json: expected settings of format 1, found format 9",
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

#[test]
fn a_reader_that_goes_away_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let unread = |folder: &Path, args: &[&str]| {
        let mut child = command(folder, args).spawn().unwrap();
        drop(child.stdout.take());
        good(args, child.wait_with_output().unwrap());
    };
    unread(
        folder.path(),
        &train_args("reverse", "1", &["--out", "run"]),
    );
    assert!(folder.path().join("run/model.bpk").exists());
    unread(folder.path(), &["eval", "--model", "run"]);
    unread(folder.path(), &["attend", "abc", "--model", "run"]);
}

/// Kills what a failed test leaves running.
#[cfg(unix)]
struct Running(Option<Child>);

#[cfg(unix)]
impl Running {
    fn start(folder: &Path, args: &[&str]) -> Self {
        Self(Some(command(folder, args).spawn().unwrap()))
    }

    /// Waits until `ready`, then sends what Ctrl-C sends.
    fn interrupt_when(mut self, ready: impl Fn() -> bool) -> Output {
        let started = Instant::now();
        while !ready() {
            let ended = self.0.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "ended too early");
            assert!(started.elapsed() < Duration::from_secs(300), "never ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        let child = self.0.take().unwrap();
        let process = child.id().to_string();
        let killed = Command::new("kill")
            .args(["-INT", &process])
            .status()
            .unwrap();
        assert!(killed.success());
        child.wait_with_output().unwrap()
    }
}

#[cfg(unix)]
impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
        }
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_model_and_a_run_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let args = train_args("reverse", "5000", &["--patience", "5000", "--out", "run"]);
    let running = Running::start(folder.path(), &args);
    let newest = || RunDir::new(&run).checkpoints().last().copied();
    let stdout = good(&args, running.interrupt_when(|| newest() >= Some(2)));
    assert!(stdout.contains("stopped; epoch "), "{stdout}");
    assert!(
        stdout.contains("is kept as the model, `--resume` goes on (in run)"),
        "{stdout}"
    );
    let done = epochs(&stdout).len();
    assert!((2..5000).contains(&done), "{stdout}");
    succeed(folder.path(), &["translate", "abc", "--model", "run"]);
    assert!(!files(&run).iter().any(|file| file.contains("tmp")));

    // An epoch that was interrupted may be told, but leaves no checkpoint.
    let next = newest().unwrap() + 1;
    assert!(next == done || next == done + 1, "{next} after {stdout}");
    let args = ["train", "--resume", "--out", "run", "--threads", "1"];
    let running = Running::start(folder.path(), &args);
    let stdout = good(&args, running.interrupt_when(|| newest() >= Some(next)));
    assert_eq!(epochs(&stdout)[0], format!("{next}/5000"));
    succeed(folder.path(), &["translate", "abc", "--model", "run"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_before_the_first_checkpoint_leaves_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // The first epoch would take a minute.
    let long = [
        "train",
        "reverse",
        "--train-pairs",
        "6000",
        "--hidden",
        "128",
        "--epochs",
        "1",
        "--out",
        "run",
    ];
    let running = Running::start(folder.path(), &long);
    let stdout = good(
        &long,
        running.interrupt_when(|| run.join("experiment.log").exists()),
    );
    assert!(
        stdout.contains("stopped before the first checkpoint; nothing is left to use in run"),
        "{stdout}"
    );
    assert!(!run.join("model.bpk").exists());
    fail(
        folder.path(),
        &["translate", "abc", "--model", "run"],
        "its training was stopped before the first checkpoint; train again with --resume",
    );
    let args = train_args("reverse", "1", &["--out", "run"]);
    fail(
        folder.path(),
        &args,
        "the folder run: expected a folder without a run",
    );
    // It begins anew, with the settings of the run.
    replace(&run.join("run.json"), "\"train\": 6000", "\"train\": 64");
    replace(
        &run.join("run.json"),
        "\"hidden_size\": 128",
        "\"hidden_size\": 8",
    );
    let args = ["train", "--resume", "--out", "run", "--epochs", "1"];
    let stdout = succeed(folder.path(), &args);
    assert_eq!(epochs(&stdout)[0].split('/').next(), Some("1"));
    succeed(folder.path(), &["translate", "abc", "--model", "run"]);
}
