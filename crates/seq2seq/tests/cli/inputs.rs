//! Inputs: the white space in them, byte order marks, and streams that can be read once.

use std::io::Write;
use std::process::Stdio;

use attention_tests::assert_says;

use crate::program::{self, Folder, fail, succeed, text, train_on, trained, translate_lines};

#[test]
fn the_space_alone_separates_tokens() {
    let folder = &Folder::new();
    // Four source tokens and three target tokens, beside the special ones.
    let lines = "10\u{a0}000 km\t1\u{a0}\r\n5\u{3000}\u{2009}m  km\t2\r\n\u{a0}\t1\r\n";
    let args = "--source-tokens spaces --target-tokens chars";
    let stdout = train_on(folder, [lines, "km\t1\n"], args);
    assert_says(&stdout, "; 8 source and 7 target tokens;");
    for text in [" 10\u{a0}000 km\t", "\u{a0}"] {
        succeed(folder, &["translate", text, "--model", "run"]);
    }
    let args = ["translate", "km m", "--model", "run"];
    fail(folder, &args, "unknown token \"m\" at position 2; ");
}

#[test]
fn a_byte_order_mark_is_taken_from_the_beginning_alone() {
    let (run, _) = trained();
    let plain = translate_lines(run, b"abc\n");
    let marked = translate_lines(run, "\u{feff}abc\n".as_bytes());
    assert_eq!(text(&marked.stdout), text(&plain.stdout));
    let argument = succeed(run, &["translate", "\u{feff}abc", "--model", "."]);
    assert_eq!(argument, text(&plain.stdout));
    let later = translate_lines(run, "abc\n\u{feff}abc\n".as_bytes());
    let message = "line 2 of the standard input: unknown token \"\\u{feff}\" at position 1; ";
    program::bad(&["translate"], later, message);
}

#[test]
fn errors_name_the_standard_input() {
    let folder = &Folder::new();
    let args = "train --data - --out run";
    #[rustfmt::skip]
    let cases = [
        ("", " holds no line; give at least one pair of a source and a target"),
        ("a\tb\nc\n", ":2: expected a target in column 2, found 1 column"),
    ];
    for (pairs, message) in cases {
        let output = program::run_with_input(folder, args, pairs.as_bytes());
        program::bad(args, output, &format!("the standard input{message}"));
    }
}

#[test]
fn one_file_to_learn_from_and_to_validate_on_is_noted() {
    let folder = &Folder::new();
    folder.write("words.tsv", "a b\tx\nc d\ty\n");
    folder.write("valid.tsv", "b a\tx\n");
    let sizes = "--hidden 4 --embedding 4 --epochs 1 --threads 1";
    let train = |data: &str, valid: &str| {
        let args = format!("train --data {data} --valid {valid} --out run --overwrite {sizes}");
        let output = program::run(folder, &args);
        assert!(output.status.success());
        program::faults(&output.stderr)
    };
    let note =
        "note: --data and --valid are one file: the model is validated on what it has learned\n";
    assert_eq!(train("words.tsv", "./words.tsv"), note);
    assert_eq!(train("words.tsv", "valid.tsv"), "");
}

#[test]
fn one_stream_is_not_read_twice() {
    let folder = &Folder::new();
    let refused = |data: &str, valid: &str, what: &str| {
        let args = ["train", "--data", data, "--valid", valid, "--out", "run"];
        let mut program = program::command(folder, &args);
        let mut child = program.stdin(Stdio::piped()).spawn().unwrap();
        // It would be another error, if it was read. The program may have ended before.
        let _ = child.stdin.take().unwrap().write_all(b"no pair\n");
        let message = format!(
            "--data and --valid: expected {what} for one of them at most: it can be read once, \
             found {data} and {valid}"
        );
        program::bad(&args, child.wait_with_output().unwrap(), &message);
        assert!(!folder.join("run").exists());
    };
    let input = "the standard input";
    refused("-", "-", input);
    #[cfg(unix)]
    {
        refused("-", "/dev/stdin", input);
        refused("/dev/fd/0", "-", input);
        refused("/dev/stdin", "/dev/stdin", input);
        let mut mkfifo = std::process::Command::new("mkfifo");
        assert!(mkfifo.arg(folder.join("made")).status().unwrap().success());
        refused("made", "./made", "a stream");
    }
    // One that is not there is an error of its own.
    let args = "train --data none --valid none";
    fail(folder, args, "cannot read none: ");
}
