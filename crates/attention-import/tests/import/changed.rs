//! Files that were changed since they were written: each is read or is an error of one line.
//!
//! `ATTENTION_FUZZ_SECONDS=3600 cargo test --test import changed` goes on for an hour.

use std::path::Path;
use std::time::{Duration, Instant};

use attention_core::AdditiveAttention;
use attention_tests::reference_path;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::check::check_file;
use crate::files::{assert_plain, load, parameters};

/// Files with the same parameters, and the prefix of these.
const FILES: [(&str, &str); 4] = [
    ("import/stem_of_21_characters.pt", ""),
    ("import/module.pt", "model."),
    ("import/plain.safetensors", ""),
    ("import/views_legacy.pt", "plain."),
];

/// The weight that is read of `content`, if it is.
fn read(path: &Path, content: &[u8], prefix: &str) -> Option<AdditiveAttention> {
    std::fs::write(path, content).unwrap();
    let loaded = load(path, prefix);
    if let Err(error) = &loaded {
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.len() < 1_500, "{error}");
    }
    loaded.ok()
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_has_all_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    for (file, prefix) in FILES {
        let whole = std::fs::read(reference_path(file)).unwrap();
        let mut count = 0;
        for len in (0..whole.len()).step_by(17) {
            if let Some(attention) = read(&path, &whole[..len], prefix) {
                assert_plain(file, &parameters(&attention));
                count += 1;
            }
        }
        // Only the legacy format does not tell where a file ends: what is cut off may be of others.
        assert_eq!(count > 0, file.contains("legacy"), "{file}");
    }
}

/// The files of other frameworks.
fn of_frameworks() -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(reference_path("frameworks")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_none_or(|end| end != "json"));
    let files: Vec<_> = paths.map(|path| std::fs::read(path).unwrap()).collect();
    assert_eq!(files.len(), 22);
    files
}

#[test]
fn a_file_of_another_framework_cut_anywhere_is_an_error_or_has_less() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    for whole in of_frameworks() {
        std::fs::write(&path, &whole).unwrap();
        let all = check_file(&path).unwrap();
        for len in (0..whole.len()).step_by(whole.len() / 40) {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(check_file(&path).is_ok_and(|some| some < all) || check_file(&path).is_err());
        }
    }
}

#[test]
fn a_file_of_another_framework_with_random_changes_is_read_or_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed");
    let files = of_frameworks();
    let count = with_seeds(500, |random| {
        let content = changed(&files[random.random_range(0..files.len())], random);
        std::fs::write(&path, content).unwrap();
        check_file(&path).is_ok()
    });
    assert!(count > 25, "only {count} were read");
}

#[test]
fn a_file_with_random_changes_is_read_or_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed");
    let files = FILES.map(|(file, prefix)| (std::fs::read(reference_path(file)).unwrap(), prefix));
    let count = with_seeds(500, |random| {
        let (content, prefix) = &files[random.random_range(0..files.len())];
        read(&path, &changed(content, random), prefix).is_some()
    });
    assert!(count > 25, "only {count} were read");
}

/// Some bytes with a few changes.
fn changed(content: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut content = content.to_vec();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..content.len());
        match random.random_range(0..3) {
            0 => content[at] ^= 1 << random.random_range(0..8),
            1 => content[at] = [0, 1, 0x7f, 0xff, b'('][random.random_range(0..5)],
            _ => drop(content.drain(at..content.len().min(at + random.random_range(1..9)))),
        }
    }
    content
}

/// The number of seeds with which `check` holds: of `count`, or as many as there is time for.
fn with_seeds(count: u64, check: impl Fn(&mut ChaCha8Rng) -> bool) -> usize {
    let seconds = std::env::var("ATTENTION_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let started = Instant::now();
    let goes_on = |seed: &u64| seconds.map_or(*seed < count, |limit| started.elapsed() < limit);
    let check = std::panic::AssertUnwindSafe(check);
    let holds = |seed: &u64| {
        let mut random = ChaCha8Rng::seed_from_u64(*seed);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut random)));
        checked.unwrap_or_else(|_| panic!("seed {seed}"))
    };
    (0..).take_while(goes_on).filter(holds).count()
}
