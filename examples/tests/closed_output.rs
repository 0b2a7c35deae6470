//! Every example ends quietly if its output is piped into a program that stops reading.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod listed;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The examples of this package, as `cargo test` builds them.
fn examples() -> Vec<PathBuf> {
    // This test lies in `deps`, beside the folder of the examples.
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().with_file_name("examples");
    let names = listed::examples().into_iter();
    names.map(|name| folder.join(name)).collect()
}

/// An example, started in a folder for its pictures.
fn start(example: &Path, folder: &Path) -> Child {
    Command::new(example)
        .current_dir(folder)
        .env("BURN_DEVICE", "flex")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            let example = example.display();
            panic!("{example}: {error}; `cargo test -p attention-examples` builds it")
        })
}

#[track_caller]
fn assert_quiet(example: &Path, output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let example = example.display();
    assert_eq!(output.status.code(), Some(0), "{example}: {stderr}");
    assert_eq!(stderr, "", "{example}");
}

#[test]
fn examples_end_quietly_without_a_reader() {
    let examples = examples();
    assert!(examples.len() >= 14, "{examples:?}");
    let folder = tempfile::tempdir().unwrap();
    for example in examples {
        let mut child = start(&example, folder.path());
        drop(child.stdout.take());
        assert_quiet(&example, &child.wait_with_output().unwrap());
    }
}

#[test]
fn an_example_ends_quietly_in_a_pipe_to_head() {
    let mut examples = examples().into_iter();
    let example = examples.find(|example| example.ends_with("additive_attention"));
    let example = &example.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(example, folder.path());
    let stdout = child.stdout.take().unwrap();
    let head = Command::new("head").arg("-1").stdin(stdout).output();
    let printed = head.unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&printed), "context:\n");
    assert_quiet(example, &child.wait_with_output().unwrap());
}
