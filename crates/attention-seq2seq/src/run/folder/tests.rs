mod checkpoints;
mod lock;

use attention_tests::assert_says;
use tempfile::TempDir;

use super::*;
use crate::attention::AttentionKind;
use crate::data::pair_file::{Columns, PairFile};
use crate::data::tasks::Task;
use crate::model::Seq2SeqConfig;
use crate::run::{CheckpointFiles, DataSource, TrainConfig};
use crate::tests::{self, epoch_of, rows};

fn config() -> RunConfig {
    let (task, train, valid) = (Task::Reverse, 9, 4);
    let data = DataSource::Task { task, train, valid };
    let train = TrainConfig {
        epochs: 2,
        steps: Some(7),
        batch_size: 3,
        warmup: 7,
        label_smoothing: 0.1,
        ema: 0.99,
        max_minutes: Some(1.5),
        select: Select::ErrorRate,
        patience: 5,
        seed: u64::MAX,
        ..TrainConfig::default()
    };
    let model = Seq2SeqConfig::new(6, 7).with_hidden_size(8);
    let pairs = data.pairs(1).unwrap().train;
    RunConfig {
        attention: AttentionKind::Dot,
        train,
        ..RunConfig::new(model, data, &pairs)
    }
}

/// A source vocabulary of 6 tokens and a target vocabulary of 7.
fn vocabs() -> Vocabs {
    tests::vocabs("ab", "xyz")
}

/// A run with [`vocabs`].
fn created() -> (TempDir, RunDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path().join("deep/run"));
    run.create(&config(), &vocabs()).unwrap();
    (folder, run)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Changes the text of `run.json`, as one would by hand.
fn edit(run: &RunDir, from: &str, to: &str) {
    let text = fs::read_to_string(run.config_file()).unwrap();
    assert!(text.contains(from), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with("  \"crc32\""));
    let text: String = lines.collect();
    fs::write(run.config_file(), text.replacen(from, to, 1)).unwrap();
}

fn open(run: &RunDir, after: Option<usize>) -> Journal<'_> {
    let journal = run.journal(after, Select::Loss).unwrap();
    journal.open().unwrap();
    journal
}

/// An epoch, and the files of its checkpoint.
fn add(journal: &mut Journal<'_>, epoch: usize, loss: f64) {
    let [model, optim] = content(epoch);
    let files = CheckpointFiles::of(&model, &optim);
    journal.add(epoch_of(epoch, loss), &files).unwrap();
}

fn content(epoch: usize) -> [Vec<u8>; 2] {
    ["model", "optim"].map(|part| format!("{part} of epoch {epoch}").into_bytes())
}

fn checkpoint_files(run: &RunDir) -> Vec<String> {
    names(&run.path().join("checkpoint"))
}

/// The error line, without the folder.
fn line<T>(result: Result<T>, run: &RunDir) -> String {
    tests::line(result).replace(&run.path().display().to_string(), "RUN")
}

#[test]
fn streams_move_with_their_run() {
    let (folder, run) = created();
    let stream = PairFile::from_bytes("-", "a\tx\nb\ty\n");
    let mut config = config();
    config.data = DataSource::Files {
        train: run.keep_stream(&stream).unwrap(),
        valid: None,
        options: stream.guess(Columns::default()).unwrap(),
    };
    // One that only looks like a stream of a run.
    fs::write(run.path().join("pairs-20240114.tsv"), "mine").unwrap();
    run.create(&config, &vocabs()).unwrap();
    let moved = RunDir::new(folder.path().join("moved"));
    fs::rename(run.path(), moved.path()).unwrap();
    let read = moved.load_config().unwrap();
    assert_eq!(read.data.pairs(1).unwrap().train.len(), 1);
    moved.save_config(&read).unwrap();
    assert_eq!(moved.load_config().unwrap().data, read.data);
    // Nothing is left of a run that is replaced.
    moved.create(&self::config(), &vocabs()).unwrap();
    let expected = ["checkpoint", "pairs-20240114.tsv", "run.json"];
    assert_eq!(names(moved.path()), expected);
}

#[test]
fn a_manifest_that_a_hand_confused_is_an_error() {
    let (_folder, run) = created();
    let mut journal = open(&run, None);
    (1..=2).for_each(|epoch| add(&mut journal, epoch, 1.0));
    let good = fs::read(run.config_file()).unwrap();
    let table = r#"
"epoch": 2 | "epoch": 1 | expected the epochs of the history in order
"model": null | "model": 7 | expected a model that is one of the checkpoints
"#;
    for [from, to, reason] in rows(table) {
        fs::write(run.config_file(), &good).unwrap();
        edit(&run, &from, &to);
        assert_says(line(run.load_config(), &run), &reason);
    }
}

#[test]
fn a_new_run_replaces_another_and_nothing_else() {
    let (_folder, run) = created();
    add(&mut open(&run, None), 1, 1.0);
    run.keep_best().unwrap();
    for folder in ["train", "mine"] {
        fs::create_dir_all(run.path().join(folder)).unwrap();
    }
    fs::write(run.path().join("attention.svg"), "").unwrap();
    run.create(&config(), &vocabs()).unwrap();
    let expected = ["checkpoint", "mine", "run.json", "train"];
    assert_eq!(names(run.path()), expected);
    assert!(checkpoint_files(&run).is_empty());
    assert!(run.model_file().unwrap().is_none());
    // As does a training of its own.
    add(&mut open(&run, None), 1, 1.0);
    assert!(open(&run, None).history().is_empty());
    assert!(checkpoint_files(&run).is_empty());
    assert_eq!(run.load_vocabs(&config().model).unwrap(), vocabs());
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    fs::write(folder.path().join("notes"), "").unwrap();
    run.check_room().unwrap();
    // As a process leaves it that was killed before the run began.
    fs::create_dir(folder.path().join("checkpoint")).unwrap();
    fs::write(folder.path().join("checkpoint/.attention-x.tmp"), "").unwrap();
    run.check_room().unwrap();
    fs::remove_dir_all(folder.path().join("checkpoint")).unwrap();
    for name in ["checkpoint", "attention.svg"] {
        fs::write(folder.path().join(name), "").unwrap();
        let expected = format!(
            "the folder RUN: expected a folder with room for a run (name another with --out), \
             found something else's {name:?} in it"
        );
        assert_eq!(line(run.create(&config(), &vocabs()), &run), expected);
        assert!(folder.path().join(name).exists());
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    run.create(&config(), &vocabs()).unwrap();
    assert_eq!(names(folder.path()), ["checkpoint", "notes", "run.json"]);
}
