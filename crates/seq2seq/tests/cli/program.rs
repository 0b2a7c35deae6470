//! `seq2seq` in a folder: started, waited for, and judged.

use std::fs;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use attention_seq2seq::device::compiled_in_devices;
use attention_seq2seq::{RunDir, open_device};
use attention_tests::{Parts, assert_says};
use burn::tensor::Device;
use tempfile::TempDir;

/// A model and data that train in a second.
pub(crate) const TINY: &str =
    "--train-pairs 64 --valid-pairs 10 --batch-size 32 --embedding 4 --hidden 8 --threads 1";

/// `train reverse` of a tiny Transformer for an epoch.
pub(crate) const TRAIN_TRANSFORMER: &str = "train reverse --epochs 1 --model transformer --hidden 8 \
                                            --train-pairs 64 --valid-pairs 10 --batch-size 32 --threads 1";

/// An empty folder, which is removed when it is dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        fs::write(self.join(file), content).unwrap();
    }

    /// Writes a file of `count` lines.
    pub(crate) fn write_lines(&self, file: &str, count: usize, line: impl Fn(usize) -> String) {
        self.write(file, (0..count).map(line).collect::<String>());
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

/// The arguments of a command: a text, which is split at white space, or a list of texts.
pub(crate) trait Args {
    fn list(&self) -> Vec<String>;
}

impl Args for str {
    fn list(&self) -> Vec<String> {
        self.split_whitespace().map(str::to_string).collect()
    }
}

impl<S: AsRef<str>> Args for [S] {
    fn list(&self) -> Vec<String> {
        self.iter().map(|it| it.as_ref().to_string()).collect()
    }
}

/// Arguments that are a text or a list inside.
macro_rules! args {
    ($(($($of:tt)*) $kind:ty: $inner:expr;)*) => {$(
        impl<$($of)*> Args for $kind {
            fn list(&self) -> Vec<String> {
                let inner: fn(&Self) -> &_ = $inner;
                inner(self).list()
            }
        }
    )*};
}

args! {
    () String: |it| it.as_str();
    (S: AsRef<str>, const N: usize) [S; N]: |it| it.as_slice();
    (S: AsRef<str>) Vec<S>: |it| it.as_slice();
    (A: Args + ?Sized) &A: |it| *it;
}

/// The default device, with autodiff.
pub(crate) fn device() -> Device {
    open_device(compiled_in_devices()[0]).unwrap().autodiff()
}

/// `seq2seq` in `folder`, not yet started.
pub(crate) fn command(folder: &Path, args: &(impl Args + ?Sized)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seq2seq"));
    command.current_dir(folder).args(args.list());
    command
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn run(folder: &Path, args: &(impl Args + ?Sized)) -> Output {
    command(folder, args).output().unwrap()
}

/// The standard output of a run that went well.
#[track_caller]
pub(crate) fn succeed(folder: &Path, args: &(impl Args + ?Sized)) -> String {
    good(args, run(folder, args))
}

#[track_caller]
pub(crate) fn good(args: &(impl Args + ?Sized), output: Output) -> String {
    quiet(args, output, 0)
}

/// The standard output and the standard error of a run that ended with `code`.
#[track_caller]
pub(crate) fn ended(folder: &Path, args: &(impl Args + ?Sized), code: i32) -> [String; 2] {
    written(args, &run(folder, args), code)
}

/// The standard output and the standard error of an `output` that ended with `code`.
#[track_caller]
pub(crate) fn written(args: &(impl Args + ?Sized), output: &Output, code: i32) -> [String; 2] {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| text(bytes));
    let ended = output.status.code();
    assert_eq!(ended, Some(code), "{:?}: {stdout}{stderr}", args.list());
    [stdout, stderr]
}

/// The standard output of a run that ended with `code`. The standard error may only say that outputs were cut off.
#[track_caller]
pub(crate) fn quiet(args: &(impl Args + ?Sized), output: Output, code: i32) -> String {
    let [stdout, _] = written(args, &output, code);
    assert_eq!(faults(&output.stderr), "", "{:?}", args.list());
    stdout
}

/// The standard error without the notes that outputs were cut off: a model of few epochs does not end all of its own.
pub(crate) fn faults(stderr: &[u8]) -> String {
    let is_note = |line: &str| {
        line.contains(" and phonemes")
            || line.starts_with("note: ") && line.contains("output") && line.ends_with(RAISES_IT)
    };
    let stderr = text(stderr);
    let lines = stderr.split_inclusive('\n');
    lines.filter(|line| !is_note(line)).collect()
}

/// The end of the note that an output was cut off.
const RAISES_IT: &str = "; --max-length N raises it\n";

#[track_caller]
pub(crate) fn assert_starts(text: &str, start: &str) {
    let starts = text.starts_with(start);
    assert!(starts, "`{text}` does not start with `{start}`");
}

/// Expects exit code 2 and one line on the standard error, with `message` in it.
#[track_caller]
pub(crate) fn fail(folder: &Path, args: &(impl Args + ?Sized), message: &str) {
    bad(args, run(folder, args), message);
}

#[track_caller]
pub(crate) fn bad(args: &(impl Args + ?Sized), output: Output, message: &str) {
    written(args, &output, 2);
    let (args, stderr) = (args.list(), faults(&output.stderr));
    let is_error = stderr.starts_with("error: ") && !stderr.contains("panicked");
    let holds = is_error && stderr.lines().count() == 1;
    assert!(holds, "{args:?}: {stderr}");
    assert!(stderr.contains(message), "{args:?}: {stderr}");
}

/// The rows of a table: a line each, with ` | ` between the cells, each trimmed.
pub(crate) fn rows<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let rows = table.trim().lines().map(|line| {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        cells.try_into().expect(line)
    });
    rows.collect()
}

/// The cells of a line between its tabs.
#[track_caller]
pub(crate) fn cells<const N: usize>(line: &str) -> [&str; N] {
    let cells: Vec<&str> = line.split('\t').collect();
    cells.try_into().expect(line)
}

/// The log-probabilities of the tokens of an output and of its end, in a line of `score`.
pub(crate) fn scores(line: &str) -> Vec<f64> {
    let [_, _, _, tokens] = cells(line.trim_end());
    tokens.split(' ').map(|it| it.parse().unwrap()).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The first line of an output.
pub(crate) fn first_line(stdout: &str) -> &str {
    stdout.lines().next().unwrap_or_default()
}

/// `train TASK` with a tiny model for `epochs` epochs, and other arguments.
pub(crate) fn train_args(task: &str, epochs: &str, others: &str) -> String {
    format!("train {task} {TINY} --epochs {epochs} {others}")
}

/// `train --resume` of the run in `run` to `epochs` epochs, and other arguments.
pub(crate) fn resume_args(epochs: &str, others: &str) -> String {
    format!("train --resume --out run --epochs {epochs} {others}")
}

/// Every file below `folder`, by its path.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    fn collect(folder: &Path, root: &Path, files: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, files);
            } else {
                let path = path.strip_prefix(root).unwrap();
                files.push(path.to_str().unwrap().to_string());
            }
        }
    }
    let mut all = Vec::new();
    collect(folder, folder, &mut all);
    all.sort();
    all
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(file), target).unwrap();
    }
}

/// A folder of this name for all tests, without what an earlier run has left.
pub(crate) fn emptied(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A run of two epochs on the task `reverse`, and the program's output. Tests read it, or change a copy.
pub(crate) fn trained() -> &'static (PathBuf, String) {
    static TRAINED: OnceLock<(PathBuf, String)> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let folder = emptied("trained");
        let stdout = succeed(&folder, &train_args("reverse", "2", "--out run"));
        (folder.join("run"), stdout)
    })
}

/// A folder with a copy of [`trained`] as `run`.
pub(crate) fn copied() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let run = folder.join("run");
    copy(&trained().0, &run);
    (folder, run)
}

pub(crate) fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert_says(&text, from);
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// Trains a tiny model in `run` for an epoch, with these arguments.
#[track_caller]
pub(crate) fn train(folder: &Path, args: &str) -> String {
    let sizes = "--out run --overwrite --hidden 8 --embedding 4 --epochs 1 --threads 1";
    succeed(folder, &format!("train {args} {sizes}"))
}

/// [`train`] on these lines, with others to validate on.
#[track_caller]
pub(crate) fn train_on(folder: &Folder, [train, valid]: [&str; 2], args: &str) -> String {
    folder.write("train.tsv", train);
    folder.write("valid.tsv", valid);
    let args = format!("--data train.tsv --valid valid.tsv {args}");
    self::train(folder, &args)
}

/// Forty lines of numbers, in base 2 and in base 8.
pub(crate) fn number_pairs() -> String {
    (0..40).map(|at| format!("{at:04b}\t{at:02o}\n")).collect()
}

/// Changes `run.json` as one would by hand: without its checksum.
pub(crate) fn edit(run: &Path, from: &str, to: &str) {
    let file = run.join("run.json");
    let text = fs::read_to_string(&file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("  \"crc32\""));
    fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    replace(&file, from, to);
}

/// The last epoch whose checkpoint is in `run`.
pub(crate) fn newest(run: &Path) -> Option<usize> {
    RunDir::new(run).checkpoints().unwrap().last().copied()
}

/// The file of the model.
pub(crate) fn model_file(run: &Path) -> PathBuf {
    RunDir::new(run).model_file().unwrap().unwrap().0
}

/// The content of `run.json`.
pub(crate) fn manifest(run: &Path) -> serde_json::Value {
    let file: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    file["run"].clone()
}

/// The numbers of the epochs that were trained, as "3/4". In one that takes long there are lines of another kind.
pub(crate) fn epochs(stdout: &str) -> Vec<&str> {
    let ended = stdout.lines().filter(|line| line.contains("  train: "));
    let lines = ended.filter_map(|line| line.strip_prefix("epoch"));
    let counts = lines.filter_map(|line| line.split_whitespace().next());
    counts.collect()
}

/// `seq2seq translate` in `run`, with `lines` as its standard input.
pub(crate) fn translate_lines(run: &Path, lines: &[u8]) -> Output {
    run_with_input(run, "translate --model .", lines)
}

/// `seq2seq` in `folder`, with `lines` as its standard input.
pub(crate) fn run_with_input(folder: &Path, args: &(impl Args + ?Sized), lines: &[u8]) -> Output {
    let mut child = command(folder, args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines).unwrap();
    child.wait_with_output().unwrap()
}

/// Expects an error of clap, in any number of lines with each part in them, that leaves no file.
#[track_caller]
pub(crate) fn misuse(args: &(impl Args + ?Sized), expected: impl Parts) -> String {
    let folder = &Folder::new();
    let [_, stderr] = ended(folder, args, 2);
    assert!(files(folder).is_empty(), "{:?}", args.list());
    assert_says(&stderr, expected);
    stderr
}
