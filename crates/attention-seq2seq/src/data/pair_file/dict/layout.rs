//! The layout of a pronunciation dictionary, found by reading the whole file.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::entry::{Entry, fields, is_decimal, is_integer};
use crate::data::pair_file::line::{LineError, LineResult};

/// The columns between words and phonemes, and the lines that are comments.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::data::pair_file) struct Layout {
    /// Whether a word may have spaces, and ends at a TAB.
    has_long_words: bool,
    /// Whether a TAB follows the number of a pronunciation.
    has_numbered_words: bool,
    /// The largest count of numbers after a word, if one has a point.
    decimals: usize,
    /// The number of integers after a word, if no number has a point.
    integers: usize,
    /// Whether outputs in brackets follow words.
    has_brackets: bool,
    /// The phonemes that are integers.
    digits: HashSet<String>,
    /// The lines that begin with `#` and are comments.
    comments: HashSet<usize>,
}

impl Layout {
    /// Finds the layout of these lines.
    ///
    /// # Errors
    /// The line that can be read in two ways, and its fault.
    pub(in crate::data::pair_file) fn of<'a>(
        lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Self, (usize, LineError)> {
        let entries = lines.filter_map(|(line, text)| Entry::of(line, text));
        let (signed, entries): (Vec<_>, Vec<_>) =
            entries.partition(|entry| entry.word[0].starts_with('#'));
        let phonemes = entries.iter().flat_map(Entry::phonemes).copied().collect();
        let evidence = Evidence { entries, phonemes };
        let comments = evidence.comments(&signed)?;
        evidence.fault().map_or(Ok(()), Err)?;
        let entries = &evidence.entries;
        let decimals = entries.iter().map(Entry::decimals).max().unwrap_or(0);
        let digits = evidence.phonemes.iter().filter(|it| is_integer(it));
        Ok(Self {
            has_long_words: entries.iter().any(|it| it.word.len() > 1),
            has_numbered_words: evidence.has_numbered_words(),
            decimals,
            integers: evidence.integers(decimals)?,
            has_brackets: entries.iter().any(|it| it.output.is_some()),
            digits: digits.map(|it| it.to_string()).collect(),
            comments,
        })
    }

    /// The word and the phonemes of a line; `None` if it is empty or a comment.
    pub(super) fn read<'a>(
        &self,
        line: usize,
        text: &'a str,
    ) -> LineResult<Option<(String, Vec<&'a str>)>> {
        let Some(mut entry) = Entry::of(line, text).filter(|_| !self.comments.contains(&line))
        else {
            return Ok(None);
        };
        if self.has_numbered_words && entry.word.len() > 1 && !entry.has_column {
            entry.word.pop();
        }
        let left_out = entry.numbers().min(match entry.decimals() {
            0 => self.integers,
            _ => self.decimals,
        });
        let phonemes = entry.rest.split_off(left_out);
        let word = entry.word.join(" ");
        let is_phoneme = |last: &str| left_out < self.decimals || self.digits.contains(last);
        let unclear = entry.rest.iter().skip(1).next_back();
        if let Some(last) = unclear.filter(|it| is_integer(it) && is_phoneme(it)) {
            let expected = format!("{} numbers behind a word, or one", self.decimals);
            let found = format!("{last} behind {word:?}, which may be a phoneme");
            return Err(LineError::new(expected, found));
        }
        if let Some(number) = phonemes.iter().find(|field| is_decimal(field)) {
            let found = format!("the number {number} in the entry of {word:?}");
            return Err(LineError::new("phonemes", found));
        }
        if phonemes.is_empty() {
            let found = format!("{word:?} alone");
            return Err(LineError::new("a word and its phonemes", found));
        }
        Ok(Some((word, phonemes)))
    }
}

/// The layout, as shown to the user.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.has_long_words {
            true => "words that end at a TAB and phonemes",
            false => "words and phonemes",
        })?;
        let numbers = match (self.decimals, self.integers) {
            (0, 0) if !self.has_numbered_words => None,
            (0, _) => Some("the number of a pronunciation (as NLTK has it)".to_owned()),
            (1, _) => Some("a number (a probability, as Kaldi has it)".to_owned()),
            (most, _) => Some(format!(
                "up to {most} numbers (probabilities, as the Montreal Forced Aligner has them)"
            )),
        };
        let output = "an output in brackets (as HTK has it)".to_owned();
        let left_out = [numbers, self.has_brackets.then_some(output)];
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        if !left_out.is_empty() {
            write!(f, "; left out behind words: {}", left_out.join(", "))?;
        }
        match self.comments.len() {
            0 => Ok(()),
            1 => f.write_str("; left out: 1 line whose word begins with # (a comment)"),
            lines => write!(
                f,
                "; left out: {lines} lines whose words begin with # (comments)"
            ),
        }
    }
}

/// The entries of a dictionary, from which its layout is found.
struct Evidence<'a> {
    /// The entries whose word does not begin with `#`.
    entries: Vec<Entry<'a>>,
    /// Fields that are phonemes in every layout.
    phonemes: HashSet<&'a str>,
}

impl Evidence<'_> {
    /// The lines that begin with `#` and have no phonemes.
    fn comments(&self, signed: &[Entry<'_>]) -> Result<HashSet<usize>, (usize, LineError)> {
        let mut comments = HashSet::new();
        for entry in signed {
            let (rest, fields) = (&entry.rest[..], entry.rest.len());
            let known = rest.iter().filter(|it| self.phonemes.contains(**it));
            match known.count() {
                0 => {
                    comments.insert(entry.line);
                }
                known if 2 * known >= fields => {}
                known => {
                    let text = [&entry.word[..], rest].concat().join(" ");
                    let found = format!("{text:?} ({known} of {fields} are phonemes)");
                    let expected = "`# ` before a comment, or a word and phonemes of other lines";
                    return Err((entry.line, LineError::new(expected, found)));
                }
            }
        }
        Ok(comments)
    }

    /// The first entry that can be read in two ways, and its fault: a `#` followed by phonemes only; brackets after a
    /// word that are a phoneme elsewhere; fields before a TAB that may be phonemes, as other lines have no TAB.
    fn fault(&self) -> Option<(usize, LineError)> {
        let is_phoneme = |field: &&str| self.phonemes.contains(field);
        let is_behind_sign = |entry: &&Entry<'_>| {
            let mut fields = fields(entry.comment).skip(1).peekable();
            fields.peek().is_some() && fields.all(|it| is_phoneme(&it))
        };
        if let Some(entry) = self.entries.iter().find(is_behind_sign) {
            let found = format!("{:?}", entry.comment);
            let expected = "a comment behind #, which is no phoneme";
            return Some((entry.line, LineError::new(expected, found)));
        }
        let mut outputs = self.entries.iter();
        let outputs = outputs.find_map(|it| Some((it.line, it.output.filter(is_phoneme)?)));
        if let Some((line, field)) = outputs {
            let found = format!("{field:?} in both places: write the phoneme without brackets");
            let expected = "brackets behind words, or among phonemes";
            return Some((line, LineError::new(expected, found)));
        }
        let mut words = self.entries.iter();
        let unclear = words.find(|entry| entry.word[1..].iter().any(is_phoneme))?;
        if self.entries.iter().all(|entry| entry.has_tab) {
            return None;
        }
        let word = unclear.word.join(" ");
        let found = format!("{word:?} before a TAB, and lines without one");
        let expected = "a TAB behind the word in every line, or in none";
        Some((unclear.line, LineError::new(expected, found)))
    }

    /// Whether every word before a TAB ends with the number of its pronunciation, or a probability.
    fn has_numbered_words(&self) -> bool {
        let long = self.entries.iter().filter_map(|entry| {
            let (last, word) = entry.word.split_last()?;
            (!word.is_empty()).then_some((entry, word, *last))
        });
        let columns = self.entries.iter().filter(|entry| entry.has_column).count();
        let is_one = |last: &str| last == "0" || last == "1";
        let ones = long.clone();
        let ones = ones.filter(|(entry, _, last)| is_one(last) && !entry.has_column);
        let are_probabilities = columns > 0 && columns + ones.count() == self.entries.len();
        let numbered = long.filter(|(_, _, last)| is_integer(last));
        are_probabilities || self.are_counted(numbered.map(|(_, word, number)| (word, number)))
    }

    /// The number of integers to skip after a word, in a file whose words have up to `decimals` numbers, one of them
    /// with a point.
    fn integers(&self, decimals: usize) -> Result<usize, (usize, LineError)> {
        let numbered = self.entries.iter().filter(|entry| entry.numbers() > 0);
        let (with_decimals, with_integer): (Vec<_>, Vec<_>) =
            numbered.partition(|entry| entry.decimals() > 0);
        // A TAB, a number and more fields in one cell are phonemes, unless every word has a number.
        let is_everywhere = with_integer.len() + with_decimals.len() == self.entries.len();
        let is_unclear = |it: &&&Entry<'_>| is_everywhere || it.has_cell || !it.has_tab;
        let unclear: Vec<_> = with_integer.iter().filter(is_unclear).collect();
        let Some(first) = unclear.first() else {
            return Ok(0);
        };
        let all = |is_so: &dyn Fn(&str) -> bool| unclear.iter().all(|it| is_so(it.rest[0]));
        let is_one = |number: &str| number == "0" || number == "1";
        if decimals > 0 && all(&is_one) && (is_everywhere || all(&|it| !self.phonemes.contains(it)))
        {
            return Ok(decimals);
        }
        let entries = with_integer.iter();
        let numbers = entries.map(|entry| (&entry.word[..], entry.rest[0]));
        let is_one_number = with_integer.iter().any(|it| it.numbers() == 1);
        if is_everywhere && decimals == 0 && is_one_number && self.are_counted(numbers) {
            return Ok(1);
        }
        let are_told = unclear.iter().all(|it| it.has_tab && !it.has_cell);
        let are_phonemes = are_told || !is_everywhere && all(&|it| self.phonemes.contains(it));
        if are_phonemes && (decimals == 0 || !all(&is_one)) {
            return Ok(0);
        }
        let found = format!(
            "{number} behind {:?}, and {} of {} words with such a number (`word TAB {number} ..` has it as a phoneme)",
            first.word.join(" "),
            with_integer.len(),
            self.entries.len(),
            number = first.rest[0],
        );
        let expected = "the number of a pronunciation behind every word, or behind none";
        Err((first.line, LineError::new(expected, found)))
    }

    /// Whether every word with several entries has a number that counts its pronunciations; in a part of a dictionary
    /// most are 1.
    fn are_counted<'w>(&self, numbers: impl Iterator<Item = (&'w [&'w str], &'w str)>) -> bool {
        let mut counts = HashMap::<&[&str], usize>::new();
        let (mut all, mut in_order, mut ones) = (0, 0, 0);
        for (word, number) in numbers {
            let count = counts.entry(word).or_default();
            *count += 1;
            all += 1;
            in_order += usize::from(number == count.to_string());
            ones += usize::from(number == "1");
        }
        all > 1 && all == self.entries.len() && (in_order == all || 2 * ones > all)
    }
}
