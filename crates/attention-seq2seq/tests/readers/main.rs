//! Files as nobody should write them: good ones with random changes.
//!
//! `ATTENTION_FUZZ_SECONDS=3600 cargo test --test readers` goes on for an hour. The fuzzer in `fuzz` has the same
//! check.
#![allow(clippy::unwrap_used)]

mod check;

use std::time::{Duration, Instant};

use attention_seq2seq::{DataSource, RunConfig, RunDir, Seq2SeqConfig, Task, Vocabs};
use check::{READERS, check_bytes};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Good inputs of each reader.
fn good() -> Vec<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir().unwrap();
    let (task, train, valid) = (Task::Reverse, 9, 4);
    let data = DataSource::Task { task, train, valid };
    let pairs = data.pairs(1).unwrap();
    let vocabs = Vocabs::build(&pairs.train);
    let model = Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len());
    let run = RunDir::new(folder.path());
    let config = RunConfig::new(model, data, &pairs.train);
    run.create(&config, &vocabs).unwrap();
    let manifest = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
    // Without its checksum a change is not noticed at once.
    let lines = manifest.lines().filter(|line| !line.contains("\"crc32\""));
    let unchecked: String = lines.collect::<Vec<_>>().join("\n");
    let text = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let vocab = serde_json::to_string(&vocabs.target).unwrap();
    let names = "1,2|lemma,-,form,tags|dict|dates|chars|spaces|5 novembre 1994";
    vec![
        text(&[
            "\u{9}cab\tK AE B\nbad\tB AE D\n",
            "\u{6}1\t2\r\nä\tö ü\r\n\r\n",
            "\u{9}\u{feff}a b\tX Y\tnote\nc\tZ",
            "\u{49}go\twent\tV;PST\nox\toxen\tN\n",
            "\u{19}cab(2)  K AE1 B # note\n;;; none\nd\u{e9} D EY0\n",
            "\u{29}{\"source\": \"cab\", \"target\": \"K\"}\n{\"target\": \"e\u{301}\", \"source\": \"\\u00e9\"}\n",
        ]),
        text(&[&vocab]),
        text(&[&manifest, &unchecked, &unchecked]),
        text(&names.split('|').collect::<Vec<_>>()),
    ]
}

/// A good input with a few changes.
fn changed(good: &[Vec<u8>], random: &mut ChaCha8Rng) -> Vec<u8> {
    const TELLING: [&[u8]; 12] = [
        b"\t", b"\n", b"\r", b"\0", b"\"", b"{", b"]", b",", b"-1", b"1e999", b"\xff", b"null",
    ];
    let mut bytes = good[random.random_range(0..good.len())].clone();
    for _ in 0..random.random_range(0..6) {
        let place = |random: &mut ChaCha8Rng, bytes: &[u8]| random.random_range(0..=bytes.len());
        let (a, b) = (place(random, &bytes), place(random, &bytes));
        let (start, end) = (a.min(b), a.max(b));
        match random.random_range(0..6) {
            0 if start < bytes.len() => bytes[start] ^= 1 << random.random_range(0..8),
            1 => drop(bytes.drain(start..end.min(start + 20))),
            2 => drop(bytes.splice(a..a, bytes[start..end].to_vec())),
            3 => bytes.truncate(end),
            4 => {
                let other = &good[random.random_range(0..good.len())];
                let from = random.random_range(0..=other.len());
                bytes.splice(start..end, other[from..].iter().copied());
            }
            _ => {
                let telling = TELLING[random.random_range(0..TELLING.len())];
                bytes.splice(a..a, telling.iter().copied());
            }
        }
        bytes.truncate(20_000);
    }
    bytes
}

#[test]
fn any_bytes_are_read_or_are_an_error_of_one_line() {
    let seconds = std::env::var("ATTENTION_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let good = good();
    assert_eq!(good.len(), READERS);
    let started = Instant::now();
    let mut count = 0;
    for seed in 0.. {
        let goes_on = seconds.map_or(seed < 4_000, |seconds| started.elapsed() < seconds);
        if !goes_on {
            break;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let reader = random.random_range(0..READERS);
        let mut bytes = vec![reader as u8];
        bytes.extend(changed(&good[reader], &mut random));
        let checked = std::panic::catch_unwind(|| check_bytes(&bytes, folder.path()));
        assert!(checked.is_ok(), "seed {seed}: {}", bytes.escape_ascii());
        count += 1;
    }
    println!("{count} inputs");
}
