//! The layout of a pronunciation dictionary, which the file as a whole tells.

use std::collections::{HashMap, HashSet};

use super::entry::{Entry, fields, is_decimal, is_integer};
use crate::data::pair_file::line::{LineError, LineResult};

/// The columns between words and phonemes, and the lines that are comments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::data::pair_file) struct Layout {
    /// Whether a word may have spaces, and ends at a TAB.
    pub(super) has_long_words: bool,
    /// Whether a TAB stands behind the number of a pronunciation.
    pub(super) has_numbered_words: bool,
    /// The most numbers behind a word, where one has a point.
    pub(super) decimals: usize,
    /// The number of integers behind a word, where no number has a point.
    pub(super) integers: usize,
    /// Whether outputs in brackets stand behind words.
    pub(super) has_brackets: bool,
    /// The phonemes that are integers.
    pub(super) digits: HashSet<String>,
    /// The lines that begin with `#` and are comments.
    pub(super) comments: HashSet<usize>,
}

/// The parts of a dictionary by which its layout is told.
#[derive(Default)]
struct Evidence<'a> {
    entries: usize,
    with_tab: usize,
    /// Entries with a number that has a point before a TAB, and entries with 0 or 1 there.
    with_column: usize,
    with_zero_or_one: usize,
    /// Entries with numbers, one of them with a point.
    with_decimals: usize,
    /// Fields that are phonemes, whatever the layout is.
    phonemes: HashSet<&'a str>,
    /// Entries with an integer behind the word, and no number with a point.
    with_integer: Vec<(usize, Entry<'a>)>,
    /// Words of several fields before a TAB.
    long: Vec<(usize, Vec<&'a str>)>,
    with_bracket: HashMap<&'a str, usize>,
    /// The comments behind entries, from a `#` on.
    behind: Vec<(usize, &'a str)>,
    /// Entries whose word begins with `#`.
    signed: Vec<(usize, Entry<'a>)>,
}

impl Layout {
    /// The layout of these lines.
    ///
    /// # Errors
    /// The line that can be read in two ways, and its fault.
    pub(in crate::data::pair_file) fn of<'a>(
        lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Self, (usize, LineError)> {
        let mut layout = Self::default();
        let mut evidence = Evidence::default();
        for (line, text) in lines {
            if let Some(entry) = Entry::of(text) {
                layout.decimals = layout.decimals.max(evidence.add(line, entry));
            }
        }
        layout.comments = evidence.comments()?;
        evidence.check_behind()?;
        layout.has_brackets = evidence.has_brackets()?;
        evidence.check_long_words()?;
        layout.has_long_words = !evidence.long.is_empty();
        layout.has_numbered_words = evidence.has_numbered_words();
        layout.integers = evidence.integers(layout.decimals)?;
        let digits = evidence.phonemes.into_iter().filter(|it| is_integer(it));
        layout.digits = digits.map(str::to_owned).collect();
        Ok(layout)
    }

    /// The word and the phonemes of a line, none if it is empty or a comment.
    pub(super) fn read<'a>(
        &self,
        line: usize,
        text: &'a str,
    ) -> LineResult<Option<(String, Vec<&'a str>)>> {
        let Some(mut entry) = Entry::of(text).filter(|_| !self.comments.contains(&line)) else {
            return Ok(None);
        };
        if self.has_numbered_words && entry.word.len() > 1 && !entry.has_column {
            entry.word.pop();
        }
        entry.drop_bracket();
        let numbers = entry.numbers();
        let has_decimal = entry.rest[..numbers].iter().any(|it| is_decimal(it));
        let left_out = numbers.min(if has_decimal {
            self.decimals
        } else {
            self.integers
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

    /// The layout, as a person reads of it.
    pub(in crate::data::pair_file) fn described(&self) -> String {
        let mut left_out = Vec::new();
        match (self.decimals, self.integers) {
            (0, 0) if !self.has_numbered_words => {}
            (0, _) => left_out.push("the number of a pronunciation (as NLTK has it)".to_owned()),
            (1, _) => left_out.push("a number (a probability, as Kaldi has it)".to_owned()),
            (most, _) => left_out.push(format!(
                "up to {most} numbers (probabilities, as the Montreal Forced Aligner has them)"
            )),
        }
        if self.has_brackets {
            left_out.push("an output in brackets (as HTK has it)".to_owned());
        }
        let words = if self.has_long_words {
            "words that end at a TAB"
        } else {
            "words"
        };
        let mut described = format!("{words} and phonemes");
        if !left_out.is_empty() {
            described += "; left out behind words: ";
            described += &left_out.join(", ");
        }
        match self.comments.len() {
            0 => {}
            1 => described += "; left out: 1 line whose word begins with # (a comment)",
            count => {
                described +=
                    &format!("; left out: {count} lines whose words begin with # (comments)");
            }
        }
        described
    }
}

impl<'a> Entry<'a> {
    /// Drops the output of HTK, and returns its first field.
    fn drop_bracket(&mut self) -> Option<&'a str> {
        let first = self.rest.first().copied()?;
        let is_open = first.len() > 1 && first.starts_with('[');
        let end = self.rest.iter().position(|it| it.ends_with(']'));
        let end = end.filter(|end| is_open && end + 1 < self.rest.len())?;
        self.rest.drain(..=end);
        Some(first)
    }
}

impl<'a> Evidence<'a> {
    /// Adds an entry, and returns the number of columns that it has at least.
    fn add(&mut self, line: usize, mut entry: Entry<'a>) -> usize {
        if entry.word[0].starts_with('#') {
            self.signed.push((line, entry));
            return 0;
        }
        self.entries += 1;
        self.with_tab += usize::from(entry.has_tab);
        if let Some(output) = entry.drop_bracket() {
            self.with_bracket.entry(output).or_insert(line);
        }
        let numbers = entry.numbers();
        let last = entry.rest[..numbers].iter().rposition(|it| is_decimal(it));
        self.phonemes.extend(&entry.rest[numbers..]);
        if !entry.comment.is_empty() {
            self.behind.push((line, entry.comment));
        }
        self.with_decimals += usize::from(last.is_some());
        self.with_column += usize::from(entry.has_column);
        if entry.word.len() > 1 {
            let is_end = matches!(entry.word.last(), Some(&("0" | "1")));
            self.with_zero_or_one += usize::from(is_end && !entry.has_column);
            self.long.push((line, entry.word.clone()));
        }
        if numbers > 0 && last.is_none() {
            self.with_integer.push((line, entry));
        }
        last.map_or(0, |last| last + 1)
    }

    /// Refuses a `#` before nothing but phonemes.
    fn check_behind(&self) -> Result<(), (usize, LineError)> {
        let are_phonemes = |behind: &str| {
            let fields: Vec<&str> = fields(behind).skip(1).collect();
            !fields.is_empty() && fields.iter().all(|it| self.phonemes.contains(it))
        };
        match self.behind.iter().find(|(_, behind)| are_phonemes(behind)) {
            None => Ok(()),
            Some((line, behind)) => {
                let expected = "a comment behind #, which is no phoneme";
                Err((*line, LineError::new(expected, format!("{behind:?}"))))
            }
        }
    }

    fn has_brackets(&self) -> Result<bool, (usize, LineError)> {
        let both = self.with_bracket.iter();
        let both = both.filter(|(field, _)| self.phonemes.contains(*field));
        match both.min_by_key(|(_, line)| **line) {
            None => Ok(!self.with_bracket.is_empty()),
            Some((field, &line)) => Err((
                line,
                LineError::new(
                    "brackets behind words, or among phonemes",
                    format!("{field:?} in both places: write the phoneme without brackets"),
                ),
            )),
        }
    }

    /// The lines that begin with `#` and hold no phonemes.
    fn comments(&mut self) -> Result<HashSet<usize>, (usize, LineError)> {
        let mut comments = HashSet::new();
        for (line, entry) in std::mem::take(&mut self.signed) {
            let fields = entry.rest.len();
            let known = entry.rest.iter().filter(|it| self.phonemes.contains(**it));
            match known.count() {
                0 => {
                    comments.insert(line);
                }
                known if 2 * known >= fields => {}
                known => {
                    let text = [&entry.word[..], &entry.rest].concat().join(" ");
                    let found = format!("{text:?} ({known} of {fields} are phonemes)");
                    let expected = "`# ` before a comment, or a word and phonemes of other lines";
                    return Err((line, LineError::new(expected, found)));
                }
            }
        }
        Ok(comments)
    }

    /// Refuses fields before a TAB that may be phonemes, since other lines have no TAB.
    fn check_long_words(&self) -> Result<(), (usize, LineError)> {
        let is_phoneme = |field: &&str| self.phonemes.contains(field);
        let mut unclear = self.long.iter();
        let unclear = unclear.find(|(_, word)| word[1..].iter().any(is_phoneme));
        match unclear.filter(|_| self.with_tab < self.entries) {
            None => Ok(()),
            Some((line, word)) => {
                let found = format!("{:?} before a TAB, and lines without one", word.join(" "));
                let expected = "a TAB behind the word in every line, or in none";
                Err((*line, LineError::new(expected, found)))
            }
        }
    }

    /// Whether every word before a TAB ends with the number of its pronunciation, or a probability.
    fn has_numbered_words(&self) -> bool {
        let numbered = self.long.iter().filter_map(|(_, word)| {
            let (number, word) = word.split_last()?;
            is_integer(number).then_some((word, *number))
        });
        let are_probabilities =
            self.with_column > 0 && self.with_column + self.with_zero_or_one == self.entries;
        are_probabilities || self.are_counted(numbered)
    }

    /// The number of integers that are left out behind a word, in a file whose words have up to `decimals` numbers, one
    /// of them with a point.
    fn integers(&self, decimals: usize) -> Result<usize, (usize, LineError)> {
        // A TAB, a number and more in one cell are phonemes, unless every word has a number.
        let is_everywhere = self.with_integer.len() + self.with_decimals == self.entries;
        let unclear = self.with_integer.iter();
        let unclear = unclear.filter(|(_, it)| is_everywhere || it.has_cell || !it.has_tab);
        let unclear: Vec<_> = unclear.collect();
        let Some((line, first)) = unclear.first() else {
            return Ok(0);
        };
        let all = |is_so: &dyn Fn(&str) -> bool| unclear.iter().all(|(_, it)| is_so(it.rest[0]));
        let is_one = |number: &str| number == "0" || number == "1";
        if decimals > 0 && all(&is_one) && (is_everywhere || all(&|it| !self.phonemes.contains(it)))
        {
            return Ok(decimals);
        }
        let numbers = self.with_integer.iter();
        let numbers = numbers.map(|(_, entry)| (&entry.word[..], entry.rest[0]));
        let is_one_number = self.with_integer.iter().any(|(_, it)| it.numbers() == 1);
        if is_everywhere && decimals == 0 && is_one_number && self.are_counted(numbers) {
            return Ok(1);
        }
        let are_told = unclear.iter().all(|(_, it)| it.has_tab && !it.has_cell);
        let are_phonemes = are_told || !is_everywhere && all(&|it| self.phonemes.contains(it));
        if are_phonemes && (decimals == 0 || !all(&is_one)) {
            return Ok(0);
        }
        let found = format!(
            "{} behind {:?}, and {} of {} words with such a number (`word TAB {} ..` has it as a phoneme)",
            first.rest[0],
            first.word.join(" "),
            self.with_integer.len(),
            self.entries,
            first.rest[0],
        );
        let expected = "the number of a pronunciation behind every word, or behind none";
        Err((*line, LineError::new(expected, found)))
    }

    /// Whether every word of several entries has a number that counts its pronunciations; in a part of a dictionary
    /// most are 1.
    fn are_counted<'w>(&self, numbers: impl Iterator<Item = (&'w [&'a str], &'a str)>) -> bool
    where
        'a: 'w,
    {
        let mut counts = HashMap::<&[&str], usize>::new();
        let (mut all, mut in_order, mut ones) = (0, 0, 0);
        for (word, number) in numbers {
            let count = counts.entry(word).or_default();
            *count += 1;
            all += 1;
            in_order += usize::from(number == count.to_string());
            ones += usize::from(number == "1");
        }
        all > 1 && all == self.entries && (in_order == all || 2 * ones > all)
    }
}
