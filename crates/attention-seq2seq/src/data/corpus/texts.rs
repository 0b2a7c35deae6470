//! Pairs as the lines of one text.

use std::cmp::Ordering;

use super::first_equals;
use crate::data::examples::Examples;
use crate::data::pair_file::{PairFile, PairFileOptions};
use crate::data::pairs::{Pair, held_out_groups};
use crate::error::{Error, Result};
use crate::text::tokenizer::Tokenizer;

/// The texts of pairs.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    pub(super) source: Tokenizer,
    pub(super) target: Tokenizer,
    /// A line for each pair, prepared source and target divided by TAB: they have no control characters of their own.
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
        // In another normal form they may be longer.
        check(texts.lines.len())?;
        Ok(texts)
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

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.split_terminator('\n').map(source_and_target)
    }

    pub(super) fn places(&self) -> Vec<u32> {
        let mut places = Vec::with_capacity(self.len);
        let mut start = 0;
        for line in self.lines.split_terminator('\n') {
            places.push(start as u32);
            start += line.len() + 1;
        }
        places
    }

    /// The pair whose line begins at `place`.
    pub(super) fn pair(&self, place: u32) -> (&str, &str) {
        let line = self.lines[place as usize..].split('\n').next();
        source_and_target(line.unwrap_or_default())
    }

    pub(super) fn tokens(&self, (source, target): (&str, &str)) -> Pair {
        Pair {
            source: self.source.owned_tokens(source),
            target: self.target.owned_tokens(target),
        }
    }

    pub(super) fn compare_sources(&self, a: u32, b: u32) -> Ordering {
        let tokens = |place| self.source.tokens(self.pair(place).0);
        tokens(a).cmp(tokens(b))
    }

    /// Holds out a share of the sources: all pairs of one source are on one side.
    pub(super) fn split(self, fraction: f64, seed: u64) -> Result<(Self, Self)> {
        let places = self.places();
        let first = first_equals(self.len, |a, b| self.compare_sources(places[a], places[b]));
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
