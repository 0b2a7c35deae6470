//! Pairs as the lines of one text.

use std::cmp::Ordering;

use crate::data::examples::Examples;
use crate::data::pair_file::{PairFile, PairFileOptions};
use crate::data::pairs::{Pair, held_out_groups};
use crate::error::{Error, Result};
use crate::text::tokenizer::Tokenizer;
use crate::text::tokens::Tokenization;
use crate::text::vocab::{Vocab, Vocabs};

/// The texts of pairs.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    pub(super) source: Tokenizer,
    pub(super) target: Tokenizer,
    /// A line for each pair, prepared source and target separated by TAB: neither has control characters.
    lines: String,
    /// The number of pairs.
    pub(super) len: usize,
}

impl Texts {
    pub(super) fn read(file: &PairFile, options: &PairFileOptions) -> Result<Self> {
        let bytes = file.bytes().len() + 1; // The last line of a file need not end.
        let check = |bytes: usize| {
            if bytes > Examples::MAX_TOKENS {
                let expected = format!("fewer than {} bytes", Examples::MAX_TOKENS);
                let what = format!("the file {}", file.path().display());
                return Err(Error::config(what, expected, bytes - 1));
            }
            Ok(())
        };
        check(bytes)?;
        let mut texts = Self::with_capacity(options.source(), options.target(), bytes);
        file.for_each_pair(options, |source, target| texts.push(source, target))?;
        // Normalization may have made them longer.
        check(texts.lines.len())?;
        Ok(texts)
    }

    /// # Panics
    /// As [`Corpus::of_pairs`](super::Corpus::of_pairs).
    pub(super) fn of_pairs(pairs: &[Pair], tokens: Tokenization) -> Self {
        let tokenizer = Tokenizer::from(tokens);
        let mut texts = Self::with_capacity(tokenizer.clone(), tokenizer, 0);
        for pair in pairs {
            let text = |of_pair: &[String]| {
                let text = tokens.join(of_pair);
                let is_whole = tokens.tokens(&text).eq(of_pair) && !text.contains(['\t', '\n']);
                assert!(
                    is_whole,
                    "Corpus: tokens of {tokens} expected, got {of_pair:?}"
                );
                text
            };
            texts.push(&text(&pair.source), &text(&pair.target));
        }
        texts
    }

    /// An empty set with the same tokenization.
    pub(super) fn without_pairs(&self) -> Self {
        Self::with_capacity(self.source.clone(), self.target.clone(), 0)
    }

    fn with_capacity(source: Tokenizer, target: Tokenizer, bytes: usize) -> Self {
        Self {
            source,
            target,
            lines: String::with_capacity(bytes),
            len: 0,
        }
    }

    fn push(&mut self, source: &str, target: &str) {
        for part in [source, "\t", target, "\n"] {
            self.lines.push_str(part);
        }
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.split_terminator('\n').map(source_and_target)
    }

    fn places(&self) -> Vec<u32> {
        let mut places = Vec::with_capacity(self.len);
        let mut start = 0;
        for line in self.lines.split_terminator('\n') {
            places.push(start as u32);
            start += line.len() + 1;
        }
        places
    }

    /// The pair whose line begins at `place`.
    fn pair(&self, place: u32) -> (&str, &str) {
        let line = self.lines[place as usize..].split('\n').next();
        source_and_target(line.unwrap_or_default())
    }

    fn tokens(&self, (source, target): (&str, &str)) -> Pair {
        Pair {
            source: self.source.owned_tokens(source),
            target: self.target.owned_tokens(target),
        }
    }

    fn compare_sources(&self, a: u32, b: u32) -> Ordering {
        let tokens = |place| self.source.tokens(self.pair(place).0);
        tokens(a).cmp(tokens(b))
    }

    pub(super) fn longest_target(&self) -> usize {
        let pairs = self.iter();
        let targets = pairs.map(|(_, target)| self.target.tokens(target).count());
        targets.max().unwrap_or(0)
    }

    /// As [`Corpus::valid_chunks`](super::Corpus::valid_chunks). A chunk with `most` tokens or more takes no further
    /// source.
    pub(super) fn chunks(&self, most: usize) -> impl Iterator<Item = Vec<Pair>> {
        let places = self.places();
        let first = self.first_of_sources(&places);
        let mut order: Vec<u32> = (0..).take(places.len()).collect();
        order.sort_unstable_by_key(|&pair| (first[pair as usize], pair));
        let mut taken = 0;
        std::iter::from_fn(move || {
            let (mut chunk, mut tokens) = (Vec::new(), 0);
            while let Some(&index) = order.get(taken) {
                if tokens >= most && first[index as usize] == index {
                    break;
                }
                let pair = self.tokens(self.pair(places[index as usize]));
                tokens += pair.source.len() + pair.target.len();
                chunk.push(pair);
                taken += 1;
            }
            (!chunk.is_empty()).then_some(chunk)
        })
    }

    /// For each pair, the first pair with the same source.
    fn first_of_sources(&self, places: &[u32]) -> Vec<u32> {
        let place = |pair: u32| places[pair as usize];
        let compare = |a: u32, b: u32| self.compare_sources(place(a), place(b));
        let mut order: Vec<u32> = (0..).take(places.len()).collect();
        order.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
        let mut first = vec![0; places.len()];
        for equals in order.chunk_by(|&a, &b| compare(a, b).is_eq()) {
            equals.iter().for_each(|&it| first[it as usize] = equals[0]);
        }
        first
    }

    /// The tokens of each source and its target.
    pub(super) fn sequences(&self) -> impl Iterator<Item = [impl Iterator<Item = &str>; 2]> {
        let tokens = |(source, target)| [self.source.tokens(source), self.target.tokens(target)];
        self.iter().map(tokens)
    }

    pub(super) fn examples(&self, vocabs: &Vocabs) -> Examples {
        let tokens = self.sequences().flatten().map(Iterator::count).sum();
        let mut examples = Examples::with_capacity(self.len, tokens);
        let id = |vocab: &Vocab, token: &str| vocab.id(token).unwrap_or(Vocab::UNK);
        for [source, target] in self.sequences() {
            examples.push(
                source.map(|token| id(&vocabs.source, token)),
                target.map(|token| id(&vocabs.target, token)),
            );
        }
        examples
    }

    pub(super) fn pairs(&self) -> Vec<Pair> {
        self.iter().map(|pair| self.tokens(pair)).collect()
    }

    /// Holds out a fraction of the sources: all pairs of one source are on one side.
    pub(super) fn split(self, fraction: f64, seed: u64) -> Result<(Self, Self)> {
        let places = self.places();
        let first = self.first_of_sources(&places);
        drop(places);
        // Sources are numbered by their first pairs.
        let mut number = vec![0_u32; self.len];
        let mut sources = 0;
        for (index, &first) in first.iter().enumerate() {
            if first as usize == index {
                number[index] = sources;
                sources += 1;
            }
        }
        let held_out = held_out_groups(sources as usize, fraction, seed)?;
        let is_held_out = |index: usize| held_out[number[first[index] as usize] as usize];
        let mut bytes = [0, 0];
        for (index, (source, target)) in self.iter().enumerate() {
            bytes[usize::from(is_held_out(index))] += source.len() + target.len() + 2;
        }
        let mut sides =
            bytes.map(|it| Self::with_capacity(self.source.clone(), self.target.clone(), it));
        for (index, (source, target)) in self.iter().enumerate() {
            sides[usize::from(is_held_out(index))].push(source, target);
        }
        let [train, valid] = sides;
        Ok((train, valid))
    }
}

fn source_and_target(line: &str) -> (&str, &str) {
    line.split_once('\t').unwrap_or((line, ""))
}
