//! Files are written whole or not at all.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::{fs, io};

use attention_seq2seq::Error;
use attention_seq2seq::file::{write_file, write_file_if};

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The answer of the operating system.
fn source(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn a_write_replaces_the_file_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    write_file(&path, b"a long first version").unwrap();
    write_file(&path, b"second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(names(folder.path()), ["a.txt"]);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let occupied = folder.path().join("occupied");
    fs::create_dir(&occupied).unwrap();
    fs::write(occupied.join("inside"), "").unwrap();
    // A file cannot be renamed over a folder: this fails after the temporary file is written.
    write_file(&occupied, b"x").unwrap_err();
    assert_eq!(names(folder.path()), ["occupied"]);
    assert_eq!(names(&occupied), ["inside"]);
}

#[test]
fn impossible_places_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = source(write_file(missing.join("a.txt"), b"x").unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let expected = fs::read_dir(&missing).unwrap_err().to_string();
    assert_eq!(error.to_string(), expected, "no temporary name in it");
    let error = source(write_file("..", b"x").unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "the path names no file");
}

#[test]
fn writers_at_once_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared");
    std::thread::scope(|scope| {
        for byte in b'a'..=b'd' {
            let path = &path;
            scope.spawn(move || (0..5).for_each(|_| write_file(path, &[byte; 4096]).unwrap()));
        }
    });
    let text = fs::read(&path).unwrap();
    assert!(text.len() == 4096 && text.iter().all(|byte| *byte == text[0]));
    assert_eq!(names(folder.path()), ["shared"]);
}

#[test]
fn a_name_may_be_as_long_as_the_system_allows() {
    let folder = tempfile::tempdir().unwrap();
    let name = "n".repeat(255);
    write_file(folder.path().join(&name), b"x").unwrap();
    assert_eq!(names(folder.path()), [name]);
}

#[cfg(unix)]
#[test]
fn a_written_file_has_the_permissions_of_a_new_one() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let (plain, path) = (folder.path().join("plain"), folder.path().join("a.txt"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    fs::write(&plain, "").unwrap();
    write_file(&path, b"first").unwrap();
    assert_eq!(mode(&path), mode(&plain));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    write_file(&path, b"second").unwrap();
    assert_eq!(mode(&path), mode(&plain));
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_is_replaced_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "kept").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    write_file(&link, b"new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    assert_eq!(fs::read_to_string(&link).unwrap(), "new");
    assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_refusal_comes_last_and_leaves_the_file_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.csv");
    write_file(&path, b"first").unwrap();
    let entries = || fs::read_dir(folder.path()).unwrap().count();
    let error = write_file_if(&path, b"second", || {
        // The new bytes are beside it.
        assert_eq!(entries(), 2);
        Err(io::Error::other("no longer"))
    });
    assert_eq!(source(error.unwrap_err()).to_string(), "no longer");
    assert_eq!(fs::read(&path).unwrap(), b"first");
    assert_eq!(entries(), 1);
    write_file_if(&path, b"second", || Ok(())).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
}
