//! Every example runs, and the outputs and pictures of the book are those that it prints and draws.
//!
//! ```text
//! WRITE_BOOK=1 cargo test -p attention-examples --test book_outputs
//! ```
//!
//! writes it anew, in `docs/book/src/output` and `docs/book/src/pictures`; a new file in either is begun as an empty
//! one of the example's name. Numbers may differ a little, as rounding does from one instruction set to another, and
//! training makes more of it; the shades and colours of weights are not compared.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used)]

mod listed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use listed::examples;

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src")
}

/// The files of a folder of the book that an example makes, with the example's name.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let above = book().join("../..");
    let files = fs::read_dir(book().join(folder)).unwrap();
    let files = files.map(|file| file.unwrap().path());
    // Longer trainings make the files in `docs`.
    let files = files.filter(|file| !above.join(file.file_name().unwrap()).exists());
    let examples = examples();
    let of_example = |file: PathBuf| {
        let stem = file.file_stem().unwrap().to_string_lossy().to_string();
        let owners = examples.iter().filter(|example| stem.starts_with(*example));
        let owner = owners.max_by_key(|example| example.len());
        let owner = owner.unwrap_or_else(|| panic!("{}: of no example", file.display()));
        (file, owner.clone())
    };
    files.map(of_example).collect()
}

/// Runs an example in `folder`, and returns what it prints; but where it saved pictures.
fn run(example: &str, folder: &Path) -> String {
    // This test lies in `deps`, beside the folder of the examples.
    let program = std::env::current_exe().unwrap();
    let examples = program.parent().unwrap().with_file_name("examples");
    let output = Command::new(examples.join(example))
        .current_dir(folder)
        .env("BURN_DEVICE", "flex")
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("{example}: {error}; `cargo test -p attention-examples` builds it")
    });
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{example}: {stderr}");
    let lines = stdout.lines().filter(|line| !line.starts_with("saved "));
    let lines: Vec<&str> = lines.map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_matches('\n'))
}

#[test]
fn outputs_and_pictures_are_those_of_the_examples() {
    let (outputs, pictures) = (files("output"), files("pictures"));
    let is_written = std::env::var_os("WRITE_BOOK").is_some();
    for example in &examples() {
        let folder = tempfile::tempdir().unwrap();
        let stdout = run(example, folder.path());
        let mut made = Vec::new();
        for (file, _) in outputs.iter().filter(|(_, owner)| owner == example) {
            made.push((file, stdout.clone()));
        }
        for (file, _) in pictures.iter().filter(|(_, owner)| owner == example) {
            let picture = folder.path().join("target/pictures");
            let picture = picture.join(file.file_name().unwrap());
            let picture = fs::read_to_string(&picture).unwrap_or_else(|error| {
                panic!("{example} makes no {}: {error}", picture.display())
            });
            made.push((file, picture));
        }
        for (file, made) in made {
            if is_written {
                fs::write(file, made).unwrap();
                continue;
            }
            let committed = fs::read_to_string(file).unwrap();
            if let Some(difference) = difference(&committed, &made) {
                let file = file.display();
                panic!("{file}: {difference}; WRITE_BOOK=1 writes it anew");
            }
        }
    }
}

/// The first difference that is more than rounding.
fn difference(committed: &str, made: &str) -> Option<String> {
    let (committed, made) = (parts(committed), parts(made));
    for (committed, made) in committed.iter().zip(&made) {
        let is_same = match (committed, made) {
            (Part::Number(a), Part::Number(b)) => {
                (a - b).abs() <= 0.02 + 0.1 * a.abs().max(b.abs())
            }
            (committed, made) => committed == made,
        };
        if !is_same {
            return Some(format!("{made:?} expected, got {committed:?}"));
        }
    }
    let (before, now) = (committed.len(), made.len());
    (before != now).then(|| format!("{now} words and numbers expected, got {before}"))
}

#[derive(Debug, PartialEq)]
enum Part {
    Word(String),
    Number(f64),
}

/// The words and numbers of a text, without colours and shades.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || "<>\"[](),=%:;/|".contains(c)) {
        let is_color = word.strip_prefix('#').is_some_and(|hex| {
            hex.len() == 6 && hex.chars().all(|digit| digit.is_ascii_hexdigit())
        });
        let is_shade = word.chars().all(|c| "░▒▓█".contains(c));
        if is_color || is_shade {
            continue;
        }
        // "NaN" is a word.
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        let number = has_digit.then(|| word.parse().ok());
        parts.push(match number.flatten() {
            Some(number) => Part::Number(number),
            None => Part::Word(word.to_string()),
        });
    }
    parts
}

#[test]
fn differences_beyond_rounding_are_found() {
    let text = "<rect x=\"1.5\" fill=\"#FFF5F0\"/> loss 0.731, ░░ 10 %";
    let near = text.replace("0.731", "0.735").replace("FFF5F0", "FFF5F1");
    assert_eq!(difference(text, &near), None);
    assert!(difference(text, &text.replace("0.731", "0.931")).is_some());
    assert!(difference(text, &text.replace("loss", "error")).is_some());
    assert!(difference(text, &format!("{text} more")).is_some());
}
