use tempfile::TempDir;

use super::*;
use crate::attention::AttentionKind;
use crate::run::DataSource;
use crate::tasks::Task;
use crate::tokens::Tokenization::{self, Chars};
use crate::train::TrainConfig;
use crate::tsv::{Columns, TsvOptions};
use crate::vocab::Vocab;

fn config() -> RunConfig {
    let data = DataSource::Task {
        task: Task::Reverse,
        train: 9,
        valid: 4,
    };
    let train = TrainConfig {
        epochs: 2,
        batch_size: 3,
        learning_rate: 0.004,
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

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replacen(from, to, 1)).unwrap();
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
    assert_eq!(
        names(run.path()),
        ["run.json", "source.vocab.json", "target.vocab.json"]
    );
    let read = run.load_config().unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", config()));
    assert_eq!(run.load_vocabs(&read.model).unwrap(), vocabs());
    assert!(run.checkpoints().is_empty());

    let mut longer = read;
    longer.train.epochs = 7;
    run.save_config(&longer).unwrap();
    assert_eq!(run.load_config().unwrap().train.epochs, 7);
}

#[test]
fn settings_of_a_file_of_pairs_round_trip() {
    let mut expected = config();
    expected.data = DataSource::Tsv {
        train: "a b/train.tsv".into(),
        valid: None,
        options: TsvOptions {
            columns: "2,1".parse::<Columns>().unwrap(),
            source_tokens: Chars,
            target_tokens: Tokenization::Spaces,
        },
    };
    let (_folder, run) = created();
    run.save_config(&expected).unwrap();
    let read = run.load_config().unwrap();
    assert_eq!(read.data, expected.data);
    assert_eq!(read.data.source_tokens(), Chars);
    assert_eq!(read.data.target_tokens(), Tokenization::Spaces);
}

#[test]
fn a_folder_without_a_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path().join("none"));
    assert!(!run.exists());
    assert_eq!(
        line(run.load_config(), &run),
        "cannot use the checkpoint RUN: no trained model is there; train one first, or name another folder"
    );
    assert!(run.checkpoints().is_empty());
    run.vacate().unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn settings_that_make_no_model_are_an_error() {
    for (from, to, reason) in [
        (
            "\"format\": 2",
            "\"format\": 3",
            "expected settings of format 2, found format 3: train again with this version",
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
        edit(&run.config_file(), from, to);
        let line = line(run.load_config(), &run);
        let expected = format!("cannot use the checkpoint RUN/run.json: {reason}");
        assert!(line.starts_with(&expected), "{line}");
    }
    let (_folder, run) = created();
    edit(&run.config_file(), "\"layers\"", "\"floors\"");
    let line = line(run.load_config(), &run);
    assert!(
        line.starts_with("RUN/run.json is not the expected JSON: "),
        "{line}"
    );
}

#[test]
fn a_vocabulary_of_another_model_is_an_error() {
    let (_folder, run) = created();
    vocab("xy").save(run.vocab_file("target")).unwrap();
    assert_eq!(
        line(run.load_vocabs(&config().model), &run),
        "RUN/target.vocab.json holds no usable vocabulary: the model expects 7 tokens, the file has 6"
    );
    fs::remove_file(run.vocab_file("source")).unwrap();
    let line = line(run.load_vocabs(&config().model), &run);
    assert!(
        line.starts_with("cannot read RUN/source.vocab.json: "),
        "{line}"
    );
}

fn checkpoint(run: &RunDir, epoch: usize, parts: &[&str]) {
    fs::create_dir_all(run.path().join("checkpoint")).unwrap();
    for part in parts {
        let content = format!("{part} of epoch {epoch}");
        fs::write(run.checkpoint_file(part, epoch), content).unwrap();
    }
}

const PARTS: [&str; 3] = ["model", "optim", "scheduler"];

#[test]
fn only_whole_checkpoints_count_and_in_order() {
    let (_folder, run) = created();
    checkpoint(&run, 10, &PARTS);
    checkpoint(&run, 2, &PARTS);
    for (epoch, missing) in [(3, "model"), (4, "optim"), (5, "scheduler")] {
        let parts: Vec<&str> = PARTS.into_iter().filter(|part| *part != missing).collect();
        checkpoint(&run, epoch, &parts);
    }
    for name in ["model-x.bpk", "model-.bpk", "model-7.bpk.tmp", "notes"] {
        fs::write(run.path().join("checkpoint").join(name), "").unwrap();
    }
    assert_eq!(run.checkpoints(), [2, 10]);
}

#[test]
fn a_checkpoint_is_kept_as_the_model_whole_or_not_at_all() {
    let (_folder, run) = created();
    checkpoint(&run, 1, &PARTS);
    checkpoint(&run, 2, &PARTS);
    let model = || fs::read_to_string(run.model_file()).unwrap();
    run.keep_model(1).unwrap();
    run.keep_model(2).unwrap();
    assert_eq!(model(), "model of epoch 2");

    let line = line(run.keep_model(3), &run);
    assert!(line.starts_with("cannot read RUN"), "{line}");
    assert_eq!(model(), "model of epoch 2");
    assert_eq!(
        names(run.path()),
        [
            "checkpoint",
            "model.bpk",
            "run.json",
            "source.vocab.json",
            "target.vocab.json"
        ]
    );
}

#[test]
fn room_is_made_by_removing_a_run_and_nothing_else() {
    let (_folder, run) = created();
    checkpoint(&run, 1, &PARTS);
    run.keep_model(1).unwrap();
    for folder in ["train/epoch-1", "valid/epoch-1", "mine"] {
        fs::create_dir_all(run.path().join(folder)).unwrap();
    }
    fs::write(run.path().join("attention.svg"), "").unwrap();
    run.vacate().unwrap();
    assert_eq!(
        names(run.path()),
        ["mine", "run.json", "source.vocab.json", "target.vocab.json"]
    );
}

#[test]
fn what_no_run_has_written_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    fs::write(folder.path().join("notes"), "").unwrap();
    run.vacate().unwrap();
    for name in ["checkpoint", "train", "valid", "model.bpk"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        let expected = format!(
            "the folder RUN: expected a folder with room for a run (name another with --out), \
             found something else's {name:?} in it"
        );
        assert_eq!(line(run.vacate(), &run), expected);
        assert!(folder.path().join(name).exists());
        fs::remove_dir(folder.path().join(name)).unwrap();
    }
}
