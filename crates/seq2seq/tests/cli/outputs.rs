//! Outputs: where they end, and which tokens they have.

use std::path::Path;

use attention_seq2seq::{
    DataSource, Interrupter, RunConfig, RunDir, Seq2SeqConfig, Task, TrainConfig, Training, Vocab,
    Vocabs,
};
use attention_tests::parameters;
use tempfile::TempDir;

use crate::program::{
    self, Folder, device, ended, fail, first_line, run_with_usage_error, succeed, text,
    translate_lines,
};

/// The most tokens of an output.
const MAX_LEN: usize = 14;

/// A token of the data: the first in the vocabulary.
const ORDINARY: u32 = Vocab::SPECIAL_TOKENS as u32;

/// A run on the task `reverse`, whose model finds these tokens the most likely, whatever the source.
fn run_that_predicts(tokens: &[u32]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = DataSource::Task {
        task: Task::Reverse,
        train: 64,
        valid: 10,
    };
    let pairs = data.pairs(0).unwrap();
    let vocabs = Vocabs::build(&pairs.train);
    let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len()).with_hidden_size(4);
    let train = TrainConfig {
        epochs: 1,
        // The model stays what it is.
        learning_rate: 1e-9,
        ..TrainConfig::default()
    };
    let config = RunConfig {
        train,
        max_len: MAX_LEN,
        ..RunConfig::new(model, data, &pairs.train)
    };
    let run = RunDir::new(folder.path());
    run.create(&config, &vocabs).unwrap();
    let model = parameters::changed(config.init_model(&device()), |path, mut value| {
        if path == "decoder.output.bias" {
            for &token in tokens {
                value.data[token as usize] = 100.0;
            }
        }
        value
    });
    let training = Training {
        model,
        train: vocabs.encode(&pairs.train).into(),
        valid: vocabs.encode(&pairs.valid).into(),
        config: config.train,
        run: run.clone(),
        resume_from: None,
        interrupter: Interrupter::new(),
        observer: (),
    };
    training.launch().unwrap();
    run.keep_best().unwrap();
    folder
}

/// The standard output and the standard error of a command that went well.
#[track_caller]
fn both(folder: &Path, args: &str) -> [String; 2] {
    ended(folder, &format!("{args} --model ."), 0)
}

#[test]
fn an_output_that_reaches_the_limit_is_noted() {
    let folder = run_that_predicts(&[ORDINARY]);
    let folder = folder.path();
    let note = |output: &str, limit: &str| {
        format!("note: {output} reached the limit of {limit}; --max-length N raises it\n")
    };
    let [stdout, stderr] = both(folder, "translate abc zyx");
    assert!(stdout.lines().all(|line| line.len() == MAX_LEN), "{stdout}");
    assert_eq!(stdout.lines().count(), 2);
    let notes = ["the output of text 1", "the output of text 2"];
    let notes = notes.map(|output| note(output, "14 tokens"));
    assert_eq!(stderr, notes.concat());

    // An output of a line without tokens is empty, and whole.
    let output = translate_lines(folder, b"abc\n\nzyx\n");
    assert_eq!(output.status.code(), Some(0));
    let lines = [1, 3].map(|line| format!("line {line} of the standard input: the output"));
    let notes = lines.map(|output| note(&output, "14 tokens")).concat();
    assert_eq!(text(&output.stderr), notes);

    for (limit, tokens) in [(1, "1 token"), (40, "40 tokens")] {
        let longer = |command: &str| both(folder, &format!("{command} --max-length {limit}"));
        let [stdout, stderr] = longer("translate abc");
        assert_eq!(stdout.trim_end().len(), limit);
        assert_eq!(stderr, note("the output of text 1", tokens));
        let [stdout, stderr] = longer("attend abc");
        assert_eq!(first_line(&stdout).len(), limit);
        assert_eq!(stderr, note("the output", tokens));
        let [stdout, stderr] = longer("eval");
        let counted =
            format!("; 10 outputs reached the limit of {tokens} (eval --max-length raises it)");
        assert!(first_line(&stdout).ends_with(&counted), "{stdout}");
        assert_eq!(stderr, "");
    }
}

#[test]
fn a_stream_of_outputs_that_reach_the_limit_has_few_notes() {
    let folder = run_that_predicts(&[ORDINARY]);
    let folder = folder.path();
    let limit = "reached the limit of 14 tokens; --max-length N raises it\n";
    let notes = |lines: usize| {
        let output = translate_lines(folder, "abc\n".repeat(lines).as_bytes());
        assert_eq!(text(&output.stdout).lines().count(), lines);
        text(&output.stderr)
    };
    let line = |at: usize| format!("note: line {at} of the standard input: the output {limit}");
    let shown: String = (1..=5).map(line).collect();
    assert_eq!(notes(5), shown);
    let more = |count: usize| format!("{shown}note: {count} more of the outputs {limit}");
    assert_eq!(notes(6), more(1));
    assert_eq!(notes(601), more(596));

    // So are unknown tokens.
    let unknown: String = ('A'..='Z').collect();
    let args = format!("translate --unknown skip --max-length 5 {unknown}");
    let [_, stderr] = both(folder, &args);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 21, "{stderr}");
    assert_eq!(lines[19], "note: unknown token \"T\" is left out");
    assert_eq!(lines[20], "note: 6 more unknown tokens are left out");
}

#[test]
fn a_heatmap_in_the_terminal_is_cut_off_and_its_picture_is_whole() {
    let folder = run_that_predicts(&[ORDINARY]);
    let folder = folder.path();
    let source = "abc".repeat(30);
    let attend = format!("attend {source} --max-length");
    let [stdout, _] = both(folder, &format!("{attend} 100"));
    let left_out = "(left out: 20 of 100 output tokens and 10 of 90 source tokens; \
                    `attend --output FILE` saves a picture)";
    assert_eq!(stdout.lines().filter(|line| *line == left_out).count(), 1);
    // The output, the titles, the source and a row for each token shown, the colours, the tokens left out.
    let lines = stdout.lines().filter(|line| !line.is_empty());
    assert_eq!(lines.count(), 1 + 1 + 1 + 80 + 1 + 1, "{stdout}");
    let widths = stdout.lines().skip(1).map(|line| line.chars().count());
    assert_eq!(widths.max(), Some("a ".len() + 2 * 80), "{stdout}");

    let [stdout, _] = both(folder, &format!("{attend} 100 --output x.svg"));
    assert!(stdout.contains(" source tokens; the whole is in x.svg)\n"));
    let picture = std::fs::read_to_string(folder.join("x.svg")).unwrap();
    assert!(picture.matches("<rect").count() >= 90 * 100);

    // Beyond what a picture holds.
    let [stdout, _] = both(folder, &format!("{attend} 1200"));
    let left_out = "(left out: 1120 of 1200 output tokens and 10 of 90 source tokens; \
                    the whole is too large for a picture)\n";
    assert!(stdout.contains(left_out), "{stdout}");
}

#[test]
fn the_end_of_a_training_shows_the_beginning_of_long_texts() {
    let folder = &Folder::new();
    let word = |index: usize| format!("w{} ", index % 7);
    let source: String = (0..90).map(word).collect();
    let pair = |index: usize| format!("{source}{index}\tx\n");
    let pairs: String = (0..20).map(pair).collect();
    std::fs::write(folder.join("long.tsv"), pairs).unwrap();
    let args = "train --data long.tsv --out run --epochs 1 --hidden 4 --embedding 4 --threads 1";
    let stdout = succeed(folder, &args);
    let picture = Path::new("run").join("attention.svg");
    let left_out = "(left out: 11 of 91 source tokens; the whole is in";
    let left_out = format!("{left_out} {})\n", picture.display());
    assert!(stdout.contains(&left_out), "{stdout}");
    let shown = stdout.lines().filter(|line| line.contains(" -> "));
    assert!(shown.clone().count() > 0, "{stdout}");
    for line in shown {
        let (start, _) = line.split_once("… -> ").expect(line);
        assert_eq!(start.chars().count(), 2 + 200, "{line}");
    }
}

#[test]
fn an_output_that_ends_is_not_noted() {
    let folder = run_that_predicts(&[Vocab::EOS]);
    // It ends at once, however many tokens it might have.
    for limit in ["1", "10000"] {
        let longer =
            |command: &str| both(folder.path(), &format!("{command} --max-length {limit}"));
        assert_eq!(longer("translate abc"), ["\n", ""]);
        let [stdout, stderr] = longer("attend abc");
        assert!(stdout.contains("<eos>"), "{stdout}");
        assert_eq!(stderr, "");
        let [stdout, _] = longer("eval");
        let first = first_line(&stdout);
        assert!(first.ends_with("token error rate 100.00 %"), "{stdout}");
    }
}

#[test]
fn a_limit_that_is_out_of_range_is_refused() {
    let (run, _) = program::trained();
    for args in ["translate abc", "attend abc", "eval"] {
        for (limit, message) in [
            ("0", "expected at least 1 token, found 0"),
            ("1000001", "expected at most 1000000 tokens, found 1000001"),
        ] {
            let args = format!("{args} --model . --max-length {limit}");
            fail(run, &args, &format!("the length of outputs: {message}"));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for limit in ["-1", "many", "1.5"] {
        let args = format!("translate abc --max-length {limit}");
        let stderr = run_with_usage_error(folder.path(), &args);
        assert!(stderr.contains("--max-length"), "{stderr}");
    }
}

#[test]
fn an_output_has_no_special_tokens() {
    let folder = run_that_predicts(&[Vocab::PAD, Vocab::BOS, Vocab::UNK]);
    let folder = folder.path();
    for args in ["translate abc", "attend abc"] {
        let [stdout, _] = both(folder, args);
        let is_special = ["<pad>", "<bos>", "<unk>"].map(|token| stdout.contains(token));
        assert_eq!(is_special, [false; 3], "{stdout}");
    }
}

#[test]
fn the_end_of_a_training_tells_of_outputs_that_were_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = "--train-pairs 40 --valid-pairs 10 --batch-size 40 --hidden 4 --embedding 4 --threads 1 --epochs 1";
    // With the second seed the model finds the unknown token likely.
    for seed in ["4", "20"] {
        let args = format!("train reverse --out run --overwrite --seed {seed} {sizes}");
        let stdout = succeed(folder.path(), &args);
        let is_special = ["<unk>", "<pad>"]
            .iter()
            .any(|token| stdout.contains(token));
        assert!(!is_special, "{stdout}");
        let evaluation = succeed(folder.path(), "eval --model run");
        let first = first_line(&evaluation);
        assert!(stdout.contains(first), "{first} is not in {stdout}");
        assert!(first.contains(" reached the limit of "), "{first}");
        let shown = stdout.lines().filter(|line| line.contains(" -> "));
        let cut_off = shown.filter(|line| line.ends_with(" (cut off)")).count();
        assert!(cut_off > 0, "{stdout}");
    }
}
