//! Files of PyTorch's that were changed since: each is read or is an error of one line that names it.
//!
//! `ATTENTION_FUZZ_SECONDS=3600 cargo test --test import changed` goes on for an hour.

use std::path::Path;
use std::time::{Duration, Instant};

use attention_core::AdditiveAttention;
use attention_tests::reference_path;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

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

#[test]
fn a_file_with_random_changes_is_read_or_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed");
    let files = FILES.map(|(file, prefix)| (std::fs::read(reference_path(file)).unwrap(), prefix));
    let seconds = std::env::var("ATTENTION_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let started = Instant::now();
    let mut count = 0;
    for seed in 0.. {
        let goes_on = match seconds {
            Some(seconds) => started.elapsed() < seconds,
            None => seed < 500,
        };
        if !goes_on {
            break;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (content, prefix) = &files[random.random_range(0..files.len())];
        let mut content = content.clone();
        for _ in 0..random.random_range(1..5) {
            let at = random.random_range(0..content.len());
            match random.random_range(0..3) {
                0 => content[at] ^= 1 << random.random_range(0..8),
                1 => content[at] = [0, 1, 0x7f, 0xff, b'('][random.random_range(0..5)],
                _ => drop(content.drain(at..content.len().min(at + random.random_range(1..9)))),
            }
        }
        let checked = std::panic::catch_unwind(|| read(&path, &content, prefix).is_some());
        let is_read = checked.unwrap_or_else(|_| panic!("seed {seed}"));
        count += usize::from(is_read);
    }
    assert!(count > 25, "only {count} were read");
}
