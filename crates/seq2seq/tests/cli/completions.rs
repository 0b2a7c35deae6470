//! Completions of shells, and manual pages.

use std::fs;
use std::process::Stdio;

use crate::program::{command, fail, files, succeed};

#[test]
fn every_shell_completes_commands_and_options() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeed(folder.path(), &["completions", shell]);
        for word in ["seq2seq", "translate", "learning-rate", "overwrite"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn completions_that_nobody_reads_are_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = command(folder.path(), "completions zsh");
    let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
    // Its reader is gone before, or while, it writes.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let is_good = output.status.success() && output.stderr.is_empty();
    assert!(is_good, "{output:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stdout = succeed(folder, "man --output a/b");
    let pages = files(&folder.join("a/b"));
    assert_eq!(stdout, format!("saved {} pages in a/b\n", pages.len()));
    let help = succeed(folder, "--help");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.map_while(|line| line.split_whitespace().next());
    let commands = commands.filter(|name| *name != "help");
    let of_commands = commands.map(|name| format!("seq2seq-{name}.1"));
    let mut expected: Vec<String> = of_commands.collect();
    expected.push("seq2seq.1".to_string());
    expected.sort();
    assert_eq!(pages, expected);
    let page = fs::read_to_string(folder.join("a/b/seq2seq-train.1")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let head = format!(".TH seq2seq-train 1  \"seq2seq {version}\"");
    assert!(page.contains(&head), "{page}");
    assert!(page.contains("learning\\-rate"), "{page}");
    fs::write(folder.join("file"), "").unwrap();
    fail(folder, "man --output file", "cannot create file: ");
}
