use attention_tests::assert_says;

use super::*;
use crate::data::tasks::Task;
use crate::data::{group_by_source, split_holdout};
use crate::tests::line;
use crate::text::tokens::Tokenization;
use crate::text::vocab::Vocab;

fn options(tokens: Tokenization) -> PairFileOptions {
    PairFileOptions {
        max_tokens: 50,
        ..PairFileOptions::new(tokens, tokens)
    }
}

/// A corpus of texts, and the same as pairs.
#[track_caller]
fn check(corpus: &Corpus, pairs: &Pairs, tokens: Tokenization) {
    assert_eq!(corpus.clone().into_pairs(), *pairs);
    let same = Corpus::of_pairs(pairs, tokens);
    assert_eq!(same.checksum(), corpus.checksum());
    let vocabs = Vocabs::build(&pairs.train);
    let expected = (vocabs.clone(), vocabs.clone());
    assert_eq!((corpus.vocabs(), same.vocabs()), expected);
    for corpus in [corpus, &same] {
        let counts = (corpus.train_len(), corpus.valid_len());
        assert_eq!(counts, (pairs.train.len(), pairs.valid.len()));
        let groups = group_by_source(&pairs.valid);
        let valid: Vec<Pair> = corpus.valid_chunks().flatten().collect();
        assert!(valid.len() == pairs.valid.len() && group_by_source(&valid) == groups);
        let longest = pairs.train.iter().map(|pair| pair.target.len()).max();
        assert_eq!(corpus.longest_target(), longest.unwrap_or(0));
        let train = Examples::from(vocabs.encode(&pairs.train));
        assert_eq!(corpus.train_examples(&vocabs), train);
        let valid = Examples::from(vocabs.encode(&pairs.valid));
        assert_eq!(corpus.valid_examples(&vocabs), valid);
    }
}

#[test]
fn texts_are_the_pairs_that_they_stand_for() {
    let lines = "a  b c\tü ö\nb a\tx\na b c\ty\u{a0}z\nc\tü\u{3000}\n";
    let file = PairFile::from_bytes("pairs.tsv", lines);
    for tokens in [Tokenization::Chars, Tokenization::Spaces] {
        let options = options(tokens);
        let pairs = file.pairs(&options).unwrap();
        for seed in 0..9 {
            let corpus = Corpus::of_files(&file, None, &options, seed).unwrap();
            let pairs = split_holdout(pairs.clone(), 0.05, seed).unwrap();
            check(&corpus, &pairs, tokens);
        }
        let corpus = Corpus::of_files(&file, Some(&file), &options, 1).unwrap();
        let (train, valid) = (pairs.clone(), pairs);
        check(&corpus, &Pairs { train, valid }, tokens);
    }
}

#[test]
fn rare_tokens_are_unknown_and_some_must_be_frequent() {
    let file = PairFile::from_bytes("pairs.tsv", "a a b\tx\na c\ty\n");
    let corpus = Corpus::of_files(&file, Some(&file), &options(Tokenization::Spaces), 1).unwrap();
    let limits = |min_count, max_tokens| VocabLimits {
        min_count,
        max_tokens: Some(max_tokens),
    };
    let pairs = corpus.clone().into_pairs();
    let all = corpus.vocabs_within(&VocabLimits::default()).unwrap();
    assert_eq!(all, Vocabs::build(&pairs.train));
    let vocabs = corpus.vocabs_within(&limits(1, 2)).unwrap();
    let most_frequent = Tokenization::Spaces.split("a a b");
    assert_eq!(vocabs.source, Vocab::build([&most_frequent[..]]));
    let example = corpus.train_examples(&vocabs).get(1);
    assert_eq!(example.source, [4, Vocab::UNK]);
    #[rustfmt::skip]
    let refused = [
        (limits(2, 9), "--min-count: expected at most 1, the count of the most frequent target token, found 2"),
        (limits(4, 9), "--min-count: expected at most 3, the count of the most frequent source token, found 4"),
        (limits(0, 9), "--min-count: expected at least 1, found 0"),
        (limits(1, 0), "--max-vocab: expected at least 1, found 0"),
        (limits(1, 1 << 32), "--max-vocab: expected at most 4294967295, found 4294967296"),
    ];
    for (limits, expected) in refused {
        assert_eq!(line(corpus.vocabs_within(&limits)), expected);
    }
}

#[test]
fn generated_pairs_are_a_corpus() {
    let pairs = Task::Dates.train_valid(60, 20, 0);
    let mut corpus = Corpus::of_pairs(&pairs, Tokenization::Chars);
    check(&corpus, &pairs, Tokenization::Chars);
    // As it is in runs that were saved.
    assert_eq!(corpus.checksum(), 3_681_236_612);
    corpus.forget_train();
    assert_eq!((corpus.train_len(), corpus.valid_len()), (0, 20));
}

#[test]
fn a_chunk_has_whole_sources() {
    let file = PairFile::from_bytes("pairs.tsv", "a b\tx\nc\ty\na  b\tz z\nd\tx\nc\tx\na b\ty\n");
    let corpus = Corpus::to_validate(&file, &options(Tokenization::Spaces)).unwrap();
    // The sources `a b`, `c` and `d` have ten, four and two tokens with their targets.
    for (most, sources) in [
        (1, &["aaa", "cc", "d"][..]),
        (4, &["aaa", "cc", "d"]),
        (10, &["aaa", "ccd"]),
        (11, &["aaacc", "d"]),
        (14, &["aaacc", "d"]),
        (15, &["aaaccd"]),
    ] {
        let of_chunk = |chunk: Vec<Pair>| -> String {
            let sources = chunk.iter().map(|pair| &pair.source[0][..]);
            sources.collect()
        };
        let found: Vec<String> = corpus.valid.chunks(most).map(of_chunk).collect();
        assert_eq!(found, sources, "{most}");
    }
}

#[test]
fn one_source_cannot_be_split() {
    let file = PairFile::from_bytes("pairs.tsv", "a  b\tx\na b\ty\n");
    let corpus = Corpus::of_files(&file, None, &options(Tokenization::Spaces), 1);
    assert_says(line(corpus), "at least two different sources, found one");
}
