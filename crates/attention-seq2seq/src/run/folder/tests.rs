mod checkpoints;
mod lock;

use tempfile::TempDir;

use super::*;
use crate::attention::AttentionKind;
use crate::model::Seq2SeqConfig;
use crate::pair_file::{Columns, PairFile, PairFileOptions};
use crate::run::{CheckpointFiles, CheckpointState};
use crate::run::{DataSource, Figures, TrainConfig};
use crate::tasks::Task;
use crate::tokens::Tokenization::{Chars, Spaces};
use crate::vocab::Vocab;

fn config() -> RunConfig {
    let data = DataSource::Task {
        task: Task::Reverse,
        train: 9,
        valid: 4,
    };
    let train = TrainConfig {
        epochs: 2,
        steps: Some(7),
        batch_size: 3,
        learning_rate: 0.004,
        warmup: 7,
        label_smoothing: 0.1,
        ema: 0.99,
        max_minutes: Some(1.5),
        select: Select::ErrorRate,
        clip: 1.0,
        patience: 5,
        seed: u64::MAX,
    };
    let model = Seq2SeqConfig::new(6, 7).with_hidden_size(8);
    let pairs = data.pairs(1).unwrap().train;
    RunConfig {
        attention: AttentionKind::Dot,
        train,
        ..RunConfig::new(model, data, &pairs)
    }
}

fn vocab(text: &str) -> Vocab {
    Vocab::build([&Chars.split(text)[..]])
}

/// A source vocabulary of 6 tokens and a target vocabulary of 7.
fn vocabs() -> Vocabs {
    Vocabs {
        source: vocab("ab"),
        target: vocab("xyz"),
    }
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
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
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

fn figures(loss: f64) -> Figures {
    Figures {
        loss,
        exact_match: 0.0,
        token_errors: 0.0,
        bleu: None,
    }
}

fn open(run: &RunDir, after: Option<usize>) -> Journal<'_> {
    let journal = run.journal(after, Select::Loss).unwrap();
    journal.open().unwrap();
    journal
}

/// An epoch, and the files of its checkpoint.
fn add(journal: &mut Journal<'_>, epoch: usize, loss: f64) {
    let epoch = Epoch {
        epoch,
        train: figures(9.0),
        valid: figures(loss),
    };
    let [model, optim] = content(epoch.epoch);
    let files = CheckpointFiles::of(&model, &optim);
    journal
        .add(epoch, CheckpointState::default(), &files)
        .unwrap();
}

fn content(epoch: usize) -> [Vec<u8>; 2] {
    ["model", "optim"].map(|part| format!("{part} of epoch {epoch}").into_bytes())
}

fn checkpoint_files(run: &RunDir) -> Vec<String> {
    names(&run.path().join("checkpoint"))
}

/// The error line, without the folder.
fn line<T>(result: Result<T>, run: &RunDir) -> String {
    let line = result.err().unwrap().to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line.replace(&run.path().display().to_string(), "RUN")
}

#[test]
fn a_run_is_read_as_it_was_written() {
    let (_folder, run) = created();
    assert!(run.exists());
    assert_eq!(names(run.path()), ["checkpoint", "run.json"]);
    let read = run.load_config().unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", config()));
    assert_eq!(run.load_vocabs(&read.model).unwrap(), vocabs());
    assert!(run.checkpoints().unwrap().is_empty());

    let mut longer = read;
    longer.train.epochs = 7;
    run.save_config(&longer).unwrap();
    assert_eq!(run.load_config().unwrap().train.epochs, 7);
}

/// A file of pairs, characters to words.
fn tsv() -> DataSource {
    DataSource::Files {
        train: "a b/train.tsv".into(),
        valid: None,
        options: PairFileOptions {
            columns: "2,1".parse::<Columns>().unwrap(),
            max_tokens: 12,
            ..PairFileOptions::new(Chars, Spaces)
        },
    }
}

#[test]
fn settings_of_a_file_of_pairs_round_trip() {
    let mut expected = config();
    expected.data = tsv();
    let (_folder, run) = created();
    run.save_config(&expected).unwrap();
    let read = run.load_config().unwrap();
    assert_eq!(read.data, expected.data);
    assert_eq!(read.data.source_tokens().split("a b").len(), 3);
    assert_eq!(read.data.target_tokens().split("a b").len(), 2);
}

#[test]
fn a_folder_without_a_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path().join("none"));
    assert!(!run.exists());
    assert_eq!(
        line(run.load_config(), &run),
        "cannot use the model RUN: no trained model is there; train one first, or name another folder"
    );
    assert!(run.checkpoints().unwrap().is_empty());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn settings_that_make_no_model_are_an_error() {
    for (from, to, reason) in [
        (
            "\"format\": 4",
            "\"format\": 3",
            "expected a run of format 4, found format 3: train again with this version",
        ),
        (
            "\"hidden_size\": 8",
            "\"hidden_size\": 7",
            "the hidden size: expected even, half for each direction of the encoder, found 7",
        ),
        (
            "\"hidden_size\": 8",
            "\"hidden_size\": 0",
            "the hidden size: expected at least 1, found 0",
        ),
        (
            "\"layers\": 1",
            "\"layers\": 0",
            "the number of layers: expected at least 1, found 0",
        ),
        (
            "\"dropout\": 0.0",
            "\"dropout\": 1.0",
            "the dropout: expected at least 0 and less than 1, found 1",
        ),
    ] {
        let (_folder, run) = created();
        edit(&run, from, to);
        let line = line(run.load_config(), &run);
        let expected = format!("cannot use the model RUN/run.json: {reason}");
        assert!(line.starts_with(&expected), "{line}");
    }
    let (_folder, run) = created();
    edit(&run, "\"layers\"", "\"floors\"");
    let line = line(run.load_config(), &run);
    assert!(
        line.starts_with("RUN/run.json is not the expected JSON: "),
        "{line}"
    );
}

#[test]
fn vocabularies_of_another_model_are_an_error() {
    let (_folder, run) = created();
    let vocabs = Vocabs {
        target: vocab("xy"),
        ..vocabs()
    };
    run.create(&config(), &vocabs).unwrap();
    assert_eq!(
        line(run.load_vocabs(&config().model), &run),
        "cannot use the model RUN/run.json: the model expects 7 target tokens, the vocabulary has 6"
    );
}

#[test]
fn a_changed_bit_is_noticed_wherever_it_is() {
    let (_folder, run) = created();
    add(&mut open(&run, None), 1, 0.5);
    let good = fs::read(run.config_file()).unwrap();
    for bit in (0..8 * good.len()).step_by(13) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(run.config_file(), &bad).unwrap();
        let line = line(run.load_config(), &run);
        assert!(line.contains("RUN/run.json"), "bit {bit}: {line}");
    }
    fs::write(run.config_file(), &good).unwrap();
    for (good, part) in content(1).into_iter().zip(["model", "optim"]) {
        let file = run.path().join(format!("checkpoint/{part}-1.bpk"));
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, &bad).unwrap();
            let changed =
                format!("cannot use the model RUN/checkpoint/{part}-1.bpk: it was changed: ");
            let line = line(open(&run, Some(1)).checkpoint(1), &run);
            assert!(line.starts_with(&changed), "bit {bit}: {line}");
            if part == "model" {
                let line = self::line(run.read_model(&run.manifest().unwrap(), 1), &run);
                assert!(line.starts_with(&changed), "bit {bit}: {line}");
            }
        }
        fs::write(&file, &good).unwrap();
    }
    assert!(open(&run, Some(1)).checkpoint(1).is_ok());
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
    // Of a run that is replaced nothing is left.
    moved.create(&self::config(), &vocabs()).unwrap();
    assert_eq!(
        names(moved.path()),
        ["checkpoint", "pairs-20240114.tsv", "run.json"]
    );
}

#[test]
fn a_manifest_that_a_hand_confused_is_an_error() {
    let (_folder, run) = created();
    let mut journal = open(&run, None);
    (1..=2).for_each(|epoch| add(&mut journal, epoch, 1.0));
    let good = fs::read(run.config_file()).unwrap();
    for (from, to, reason) in [
        (
            "\"epoch\": 2",
            "\"epoch\": 1",
            "expected the epochs of the history in order",
        ),
        (
            "\"model\": null",
            "\"model\": 7",
            "expected a model that is one of the checkpoints",
        ),
    ] {
        fs::write(run.config_file(), &good).unwrap();
        edit(&run, from, to);
        let line = line(run.load_config(), &run);
        assert!(line.contains(reason), "{line}");
    }
}

#[test]
fn a_new_run_replaces_another_and_nothing_else() {
    let (_folder, run) = created();
    add(&mut open(&run, None), 1, 1.0);
    run.choose_model(1).unwrap();
    for folder in ["train", "mine"] {
        fs::create_dir_all(run.path().join(folder)).unwrap();
    }
    fs::write(run.path().join("attention.svg"), "").unwrap();
    run.create(&config(), &vocabs()).unwrap();
    assert_eq!(
        names(run.path()),
        ["checkpoint", "mine", "run.json", "train"]
    );
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
