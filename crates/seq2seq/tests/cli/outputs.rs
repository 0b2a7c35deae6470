//! Outputs: where they end, and which tokens they have.

use std::path::Path;

use attention_seq2seq::{
    DataSource, Interrupter, RunConfig, RunDir, Seq2SeqConfig, Task, Training, Vocab, Vocabs,
};
use attention_tests::{assert_says, parameters};

use crate::program::{
    self, Folder, device, ended, fail, first_line, misuse, succeed, text, train, translate_lines,
};

/// The most tokens of an output.
const MAX_LEN: usize = 14;

/// A token of the data: the first in the vocabulary.
const ORDINARY: u32 = Vocab::SPECIAL_TOKENS as u32;

/// A run on the task `reverse`, whose model finds these tokens the most likely, whatever the source.
fn run_that_predicts(tokens: &[u32]) -> Folder {
    let folder = Folder::new();
    let (task, train, valid) = (Task::Reverse, 64, 10);
    let data = DataSource::Task { task, train, valid };
    let pairs = data.pairs(0).unwrap();
    let vocabs = Vocabs::build(&pairs.train);
    let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len()).with_hidden_size(4);
    let mut config = RunConfig::new(model, data, &pairs.train);
    config.max_len = MAX_LEN;
    config.train.epochs = 1;
    // The model stays what it is.
    config.train.learning_rate = 1e-9;
    let run = RunDir::new(&*folder);
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
    let folder = &run_that_predicts(&[ORDINARY]);
    let note = |output: &str, limit: &str| {
        format!("note: {output} reached the limit of {limit}; --max-length N raises it\n")
    };
    let [stdout, stderr] = both(folder, "translate abc zyx");
    assert!(stdout.lines().all(|line| line.len() == MAX_LEN), "{stdout}");
    assert_eq!(stdout.lines().count(), 2);
    let notes = [1, 2].map(|at| note(&format!("the output of text {at}"), "14 tokens"));
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
    let folder = &run_that_predicts(&[ORDINARY]);
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
    let folder = &run_that_predicts(&[ORDINARY]);
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
    assert_says(&stdout, left_out);
}

#[test]
fn the_end_of_a_training_shows_the_beginning_of_long_texts() {
    let folder = &Folder::new();
    let source: String = (0..90).map(|at| format!("w{} ", at % 7)).collect();
    folder.write_lines("long.tsv", 20, |at| format!("{source}{at}\tx\n"));
    let stdout = train(folder, "--data long.tsv");
    let picture = Path::new("run").join("attention.svg").display().to_string();
    let left_out = "(left out: 11 of 91 source tokens; the whole is in";
    assert_says(&stdout, &format!("{left_out} {picture})\n"));
    let shown = stdout.lines().filter(|line| line.contains(" -> "));
    assert!(shown.clone().count() > 0, "{stdout}");
    for line in shown {
        let (start, _) = line.split_once("… -> ").expect(line);
        assert_eq!(start.chars().count(), 2 + 200, "{line}");
    }
}

#[test]
fn an_output_that_ends_is_not_noted() {
    let folder = &run_that_predicts(&[Vocab::EOS]);
    // It ends at once, however many tokens it might have.
    for limit in ["1", "10000"] {
        let longer = |command: &str| both(folder, &format!("{command} --max-length {limit}"));
        assert_eq!(longer("translate abc"), ["\n", ""]);
        let [stdout, stderr] = longer("attend abc");
        assert_says(&stdout, "<eos>");
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
    for limit in ["-1", "many", "1.5"] {
        let args = format!("translate abc --max-length {limit}");
        misuse(&args, "--max-length");
    }
}

#[test]
fn an_output_has_no_special_tokens() {
    let folder = &run_that_predicts(&[Vocab::PAD, Vocab::BOS, Vocab::UNK]);
    for args in ["translate abc", "attend abc"] {
        let [stdout, _] = both(folder, args);
        let is_special = ["<pad>", "<bos>", "<unk>"].map(|token| stdout.contains(token));
        assert_eq!(is_special, [false; 3], "{stdout}");
    }
}

#[test]
fn the_end_of_a_training_tells_of_outputs_that_were_cut_off() {
    let folder = &Folder::new();
    let sizes = "--train-pairs 40 --valid-pairs 10 --batch-size 40 --hidden 4 --embedding 4 --threads 1 --epochs 1";
    // With the second seed the model finds the unknown token likely.
    for seed in ["4", "20"] {
        let args = format!("train reverse --out run --overwrite --seed {seed} {sizes}");
        let stdout = succeed(folder, &args);
        let is_special = ["<unk>", "<pad>"].map(|token| stdout.contains(token));
        assert_eq!(is_special, [false; 2], "{stdout}");
        let evaluation = succeed(folder, "eval --model run");
        assert_says(&stdout, first_line(&evaluation));
        assert_says(first_line(&evaluation), " reached the limit of ");
        let shown = stdout.lines().filter(|line| line.contains(" -> "));
        let cut_off = shown.filter(|line| line.ends_with(" (cut off)")).count();
        assert!(cut_off > 0, "{stdout}");
    }
}
