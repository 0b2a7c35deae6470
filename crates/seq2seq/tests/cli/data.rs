//! The data of a training: files of pairs, and a seed.

use std::fs;

use attention_seq2seq::{RunDir, Trainee};
use attention_tests::parameters;
use burn::module::Module;
use serde_json::json;

use crate::program::{
    self, Folder, assert_starts, device, epochs, fail, files, manifest, misuse, resume_args,
    succeed, train_args, written,
};

/// Words with their letters, the letters first: 40 to learn, and 4 to validate, one with a letter never learned.
fn word_files(folder: &Folder) {
    let word = |at: usize| -> String {
        let letter = |by: usize| char::from(b'a' + (at / by % 4) as u8);
        [letter(1), letter(4), letter(16)].into_iter().collect()
    };
    let line = |word: String| {
        let letters: Vec<String> = word.to_uppercase().chars().map(String::from).collect();
        format!("{}\t{word}\n", letters.join(" "))
    };
    folder.write_lines("words.tsv", 40, |at| line(word(at)));
    let valid = ["dz".to_string()].into_iter().chain((61..64).map(word));
    folder.write("valid.tsv", valid.map(line).collect::<String>());
}

#[test]
fn a_file_of_pairs_is_learned_in_the_columns_asked_for() {
    let folder = &Folder::new();
    word_files(folder);
    let sizes = "--embedding 4 --hidden 8 --epochs 1 --threads 1";
    let args = format!("train --data words.tsv --valid valid.tsv --columns 2,1 {sizes}");
    let stdout = succeed(folder, &args);
    let start = "40 training pairs, 4 validation pairs; 8 source and 8 target tokens;";
    assert_starts(&stdout, start);
    let run = folder.join("runs/words");
    let options = &manifest(&run)["settings"]["data"]["tsv"]["options"];
    assert_eq!(options["columns"], json!({"source": 2, "target": 1}));
    let tokens = ["source_tokens", "target_tokens"].map(|side| &options[side]);
    assert_eq!(tokens, ["chars", "spaces"]);

    let output = succeed(folder, "translate cab --model runs/words");
    let known = |token: &str| ["A", "B", "C", "D"].contains(&token);
    assert!(output.split_whitespace().all(known), "{output}");
    let message = "unknown token \"z\" at position 2; expected one of: \"a\" \"b\" \"c\" \"d\"";
    fail(folder, "translate dz --model runs/words", message);
    let validation = succeed(folder, "eval --model runs/words");
    let file = succeed(folder, "eval --data valid.tsv --model runs/words");
    assert_eq!(file, validation);
    let moved = format!("eval --model {}", run.display());
    let moved = succeed(&Folder::new(), &moved);
    assert_eq!(moved, validation, "evaluated in another folder");
    assert_starts(&file, "4 sources: ");

    // Without --valid some are held out, and --out names the folder.
    let args = format!("train --data words.tsv --columns 2,1 --out held {sizes}");
    assert!(succeed(folder, &args).starts_with("38 training pairs, 2 validation pairs;"));
}

#[test]
fn a_file_and_a_task_refuse_what_only_the_other_has() {
    let conflict = "cannot be used with";
    let missing = "required arguments were not provided";
    #[rustfmt::skip]
    let cases = [
        ("--columns 1,2", missing, "--data <FILE>"),
        ("--source-tokens chars", missing, "--data <FILE>"),
        ("--data words.tsv --train-pairs 9", conflict, "--train-pairs"),
        ("--data words.tsv --valid-pairs 9", conflict, "--valid-pairs"),
        ("reverse --columns 2,1", conflict, "--columns"),
        ("reverse --valid valid.tsv", conflict, "--valid"),
        ("reverse --source-tokens chars", conflict, "--source-tokens"),
        ("reverse --target-tokens spaces", conflict, "--target-tokens"),
    ];
    for (args, message, option) in cases {
        // A hidden size of 0 is refused too: a test that fails does not train for a minute.
        misuse(&format!("train --hidden 0 {args}"), [message, option]);
    }
}

#[test]
fn a_seed_decides_everything_on_one_thread() {
    let folder = &Folder::new();
    let train = |out: &str, seed: &str| {
        let others = format!(
            "--out {out} --seed {seed} --attention dot --layers 2 --unidirectional --dropout 0.1"
        );
        succeed(folder, &train_args("copy", "2", &others));
        let run = RunDir::new(folder.join(out));
        let model = Trainee::new(run.load_config().unwrap().init_model(&device()));
        let model = model.try_load_file(run.model_file().unwrap().unwrap().0);
        let evaluation = succeed(folder, &format!("eval --model {out} --threads 1"));
        (parameters::values(&model.unwrap()), evaluation)
    };
    let first = train("first", "3");
    assert!(first == train("again", "3"), "the same seed, another model");
    assert!(first.0 != train("other", "4").0, "the seed decides nothing");
}

#[test]
fn a_run_goes_on_with_other_data_only_when_told_to() {
    let folder = &Folder::new();
    let lines: Vec<String> = (0..40).map(|n| format!("{n:04b}\t{n:03o}")).collect();
    folder.write("pairs.tsv", lines.join("\n"));
    program::train(folder, "--data pairs.tsv");
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);

    // The same tokens in other pairs.
    folder.write("pairs.tsv", lines[..39].join("\n"));
    let third = resume_args("3", "");
    let message = "the pairs of the run in run: expected those of its first epoch";
    fail(folder, &third, message);
    let eval = "eval --model run";
    let error = "the pairs of the run in run: expected those of training (--data evaluates others), found others";
    fail(folder, eval, error);
    succeed(folder, "eval --model run --data pairs.tsv");
    let told = format!("{third} --data pairs.tsv");
    assert_eq!(epochs(&succeed(folder, &told)), ["3/3"]);
    // From here on these are its pairs.
    assert_eq!(epochs(&succeed(folder, &resume_args("4", ""))), ["4/4"]);
    succeed(folder, eval);
}

/// Pairs that come through a pipe are read once, and kept in the run.
#[cfg(unix)]
#[test]
fn pairs_come_through_a_pipe() {
    use std::process::Command;

    let folder = &Folder::new();
    word_files(folder);
    let sizes = "--hidden 8 --embedding 4 --epochs 1 --threads 1 --columns 2,1";
    let shell = |line: &str| {
        let line = line.replace("seq2seq", env!("CARGO_BIN_EXE_seq2seq"));
        let args = ["-c", &line.replace("SIZES", sizes)];
        let mut bash = Command::new("bash");
        let output = bash.args(args).current_dir(folder).output().unwrap();
        let [stdout, stderr] = written(line.as_str(), &output, 0);
        assert_eq!(stderr, "", "{line}");
        stdout
    };
    let file = shell("seq2seq train --data words.tsv --valid valid.tsv --out file SIZES");
    let guess = "source tokens: chars, target tokens: spaces (guessed; --source-tokens and --target-tokens tell)";
    assert!(file.lines().any(|line| line == guess), "{file}");
    let figures = |stdout: &str| {
        let mut lines = stdout.lines();
        let line = lines.find(|line| line.contains("sources: exact match"));
        line.unwrap().to_string()
    };
    let table = "
runs/pairs : cat words.tsv | seq2seq train --data - --valid valid.tsv SIZES
stdin : seq2seq train --data /dev/stdin --valid valid.tsv --out stdin SIZES < words.tsv
shell : seq2seq train --data <(cat words.tsv) --valid <(cat valid.tsv) --out shell SIZES
fifo : mkfifo made; cat words.tsv > made & seq2seq train --data made --valid valid.tsv --out fifo SIZES
";
    for row in table.trim().lines() {
        let (out, line) = row.split_once(" : ").unwrap();
        assert_eq!(figures(&shell(line)), figures(&file), "{line}");
        let evaluated = shell(&format!("seq2seq eval --model {out}"));
        assert_eq!(figures(&evaluated), figures(&file), "{line}");
        let resume = format!("seq2seq train --resume --out {out} --epochs 2 --threads 1");
        shell(&resume);
    }
    // One that is no longer what came through the pipe is not taken for it.
    let kept = |run: &str| {
        let mut files = files(&folder.join(run));
        files.retain(|file| file.starts_with("pairs-"));
        files
    };
    let pairs = folder.join("stdin").join(&kept("stdin")[0]);
    let mut content = fs::read(&pairs).unwrap();
    content[0] ^= 1;
    fs::write(&pairs, content).unwrap();
    let error = "the pairs of the run in stdin: expected those of ";
    fail(folder, "eval --model stdin", error);
    fail(folder, "train --resume --out stdin --epochs 3", error);
    // A new run keeps its own pairs, and no others.
    assert_eq!(kept("shell").len(), 2);
    let others = "--data <(head -20 words.tsv) --valid valid.tsv SIZES";
    let no_file = "copy --train-pairs 32 --hidden 8 --epochs 1 --threads 1";
    for (args, count) in [(others, 1), (no_file, 0)] {
        shell(&format!("seq2seq train --out shell --overwrite {args}"));
        assert_eq!(kept("shell").len(), count);
    }
}
