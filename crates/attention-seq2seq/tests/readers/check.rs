//! Readers, which must read any bytes or give an error of one line.

use std::fs;
use std::path::Path;

use attention_seq2seq::data::{Columns, Corpus, JsonFields, PairFile, PairFormat};
use attention_seq2seq::metrics::TokenErrors;
use attention_seq2seq::text::Normalization;
use attention_seq2seq::{Error, RunDir, Task, Tokenization, Vocab, split_holdout};

/// The readers: the first byte of an input chooses one.
pub(crate) const READERS: usize = 4;

/// Reads the bytes after the first with the reader that the first one chooses. `folder` is used for files.
///
/// # Panics
/// If a reader panics, an error has more than one line, what was read cannot be used, or a corpus has other pairs than
/// those that were read.
pub(crate) fn check_bytes(bytes: &[u8], folder: &Path) {
    let Some((&reader, bytes)) = bytes.split_first() else {
        return;
    };
    match usize::from(reader) % READERS {
        0 => pairs(bytes),
        1 => vocabulary(bytes),
        2 => run(bytes, folder),
        _ => names(bytes),
    }
}

fn one_line<T>(result: Result<T, Error>) -> Option<T> {
    if let Err(error) = &result {
        let line = error.to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    result.ok()
}

/// A file of pairs, in columns, a format and a normal form that its first byte chooses.
fn pairs(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    let columns = Columns {
        source: usize::from(choice % 4),
        target: usize::from(choice / 4 % 4),
        tags: (choice / 64 % 2 == 1).then_some(3),
    };
    let format = ["tsv", "dict", "jsonl", "tsv"][usize::from(choice / 16 % 4)];
    let file = PairFile::from_bytes(format!("pairs.{format}"), bytes);
    let Some(mut options) = one_line(file.guess(columns)) else {
        return;
    };
    if choice / 128 == 1 {
        options.normalization = Normalization::Nfd;
    }
    options.max_tokens = 100;
    let pairs = one_line(file.pairs(&options));
    let corpus = one_line(Corpus::of_files(&file, None, &options, 1));
    let split = pairs.clone();
    let split = split.and_then(|pairs| one_line(split_holdout(pairs, 0.05, 1)));
    match (corpus, split) {
        (Some(corpus), Some(split)) => {
            let chunks: usize = corpus.valid_chunks().map(|chunk| chunk.len()).sum();
            assert_eq!(chunks, corpus.valid_len());
            assert_eq!(corpus.into_pairs(), split);
        }
        (corpus, split) => assert!(corpus.is_none() && split.is_none()),
    }
    for pair in pairs.unwrap_or_default() {
        for tokens in [&pair.source, &pair.target] {
            assert!((1..=100).contains(&tokens.len()), "{tokens:?}");
            let whole = |token: &String| !token.is_empty() && !token.contains(char::is_control);
            assert!(tokens.iter().all(whole), "{tokens:?}");
        }
        let vocab = Vocab::build([&pair.source[..]]);
        assert!(vocab.len() >= Vocab::SPECIAL_TOKENS);
        let mut errors = TokenErrors::new();
        errors.add(&pair.target, &[&pair.target]);
        assert_eq!(errors.exact_match(), 1.0);
    }
}

fn vocabulary(bytes: &[u8]) {
    let Ok(vocab) = serde_json::from_slice::<Vocab>(bytes) else {
        return;
    };
    let again = serde_json::to_vec(&vocab).expect("a vocabulary has a JSON form");
    let again: Vocab = serde_json::from_slice(&again).expect("what was written can be read");
    assert_eq!(again, vocab);
    vocab.decode(&[Vocab::BOS, vocab.len() as u32 - 1, Vocab::EOS]);
}

/// The manifest of a run, which has no other files.
fn run(bytes: &[u8], folder: &Path) {
    fs::write(folder.join("run.json"), bytes).expect("a folder to write in");
    let run = RunDir::new(folder);
    if let Some(config) = one_line(run.load_config()) {
        let checked = config.check();
        checked.expect("settings are checked when they are read");
        one_line(run.load_vocabs(&config.model));
        one_line(run.save_config(&config));
    }
    one_line(run.history());
    if let Some(checkpoints) = one_line(run.checkpoints()) {
        assert!(checkpoints.is_empty(), "no file of a checkpoint is there");
    }
    one_line(run.model_file());
}

/// The names that a command line may have.
fn names(bytes: &[u8]) {
    let Ok(name) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(columns) = one_line(name.parse::<Columns>()) {
        assert!(columns.source > 0 && columns.target > 0 && columns.source != columns.target);
        assert_eq!(columns.to_string().parse::<Columns>().ok(), Some(columns));
    }
    one_line(name.parse::<PairFormat>());
    if let Some(fields) = one_line(name.parse::<JsonFields>()) {
        assert_eq!(fields.to_string(), name);
    }
    one_line(name.parse::<Task>());
    one_line(name.parse::<Tokenization>());
    for tokens in [Tokenization::Chars, Tokenization::Spaces] {
        let split = tokens.split(name);
        assert_eq!(tokens.split(&tokens.join(&split)), split);
    }
}
