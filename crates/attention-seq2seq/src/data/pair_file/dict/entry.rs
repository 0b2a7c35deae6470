//! A line of a pronunciation dictionary in its fields.

use crate::text::tokens::trim;

/// The fields of a line that is not a comment.
pub(super) struct Entry<'a> {
    /// The index of the line.
    pub(super) line: usize,
    /// The fields of the word: those before the first TAB, without numbers and brackets at their end; without a TAB,
    /// the first field.
    pub(super) word: Vec<&'a str>,
    /// The fields after the word, without an output.
    pub(super) rest: Vec<&'a str>,
    /// The first field of the output in brackets after the word, as HTK writes it.
    pub(super) output: Option<&'a str>,
    pub(super) has_tab: bool,
    /// Whether a number with a point or a bracket stands before the first TAB.
    pub(super) has_column: bool,
    /// Whether the first cell after a TAB is a single field, and more cells follow.
    pub(super) has_cell: bool,
    /// The comment after the fields, from a field that begins with `#`.
    pub(super) comment: &'a str,
}

impl<'a> Entry<'a> {
    /// The fields of a line; `None` if it is empty or a comment.
    pub(super) fn of(line: usize, text: &'a str) -> Option<Self> {
        let text = trim(text);
        let first = fields(text).next()?;
        let is_of = |sign: char| first.chars().all(|it| it == sign);
        if is_of('#') || first.starts_with("##") || first.starts_with(";;;") || first == ";;" {
            return None;
        }
        let (text, comment) = text.split_at(comment_at(text));
        let text = trim(text);
        let (head, tail) = text.split_once('\t').unwrap_or((text, ""));
        let has_tab = head.len() < text.len();
        let mut word: Vec<&str> = fields(head).collect();
        let is_output =
            |at: usize| word[at].starts_with('[') && word[word.len() - 1].ends_with(']');
        let are_columns = |&at: &usize| {
            !has_tab || is_output(at) || word[at..].iter().all(|field| is_column(field))
        };
        let columns = (1..word.len()).find(are_columns).unwrap_or(word.len());
        let mut rest = word.split_off(columns);
        let has_column = has_tab && !rest.is_empty();
        let cells = tail.split('\t').map(|cell| fields(cell).count());
        let cells: Vec<usize> = cells.filter(|fields| *fields > 0).collect();
        rest.extend(fields(tail));
        Some(Self {
            line,
            word,
            output: take_output(&mut rest),
            rest,
            has_tab,
            has_column,
            has_cell: matches!(cells[..], [1, _, ..]),
            comment,
        })
    }

    /// The number of numeric fields after the word, except the last field if it is an integer.
    pub(super) fn numbers(&self) -> usize {
        let is_number = |field: &&&str| is_decimal(field) || is_integer(field);
        let count = self.rest.iter().take_while(is_number).count();
        match self.rest.last() {
            Some(last) if count == self.rest.len() && is_integer(last) => count - 1,
            _ => count,
        }
    }

    /// The number of these up to the last one with a point, 0 if none has a point.
    pub(super) fn decimals(&self) -> usize {
        let numbers = &self.rest[..self.numbers()];
        let last = numbers.iter().rposition(|it| is_decimal(it));
        last.map_or(0, |last| last + 1)
    }

    /// The fields that are phonemes in every layout.
    pub(super) fn phonemes(&self) -> &[&'a str] {
        &self.rest[self.numbers()..]
    }
}

/// Takes an output in brackets from the fields after a word, and returns its first field.
fn take_output<'a>(rest: &mut Vec<&'a str>) -> Option<&'a str> {
    let first = *rest.first()?;
    let end = rest.iter().position(|it| it.ends_with(']'))?;
    let is_output = first.len() > 1 && first.starts_with('[') && end + 1 < rest.len();
    is_output.then(|| rest.drain(..=end).next())?
}

/// The parts of a text, separated by spaces and TABs.
pub(super) fn fields(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t']).filter(|field| !field.is_empty())
}

/// The end of a line before the field that begins with `#`, unless that field is the first.
fn comment_at(line: &str) -> usize {
    let begins = |&at: &usize| line[..at].ends_with([' ', '\t']);
    let mut signs = line.match_indices('#').map(|(at, _)| at);
    signs.find(begins).unwrap_or(line.len())
}

/// Whether a field is a number with a point, an exponent or a minus, which is never a phoneme.
pub(super) fn is_decimal(field: &str) -> bool {
    let is_written = |it: &str| it.contains(['.', '-', '+']);
    let is_number = field.ends_with(|it: char| it.is_ascii_digit()) && field.parse::<f64>().is_ok();
    is_number && is_written(field)
}

/// Whether a field is a number that may be a phoneme, since X-SAMPA has digits.
pub(super) fn is_integer(field: &str) -> bool {
    field.bytes().all(|it| it.is_ascii_digit())
}

/// Whether a field is neither part of a word before a TAB nor a phoneme: a number, or in brackets, as HTK's outputs.
pub(in crate::data::pair_file) fn is_column(field: &str) -> bool {
    is_decimal(field) || field.len() > 1 && field.starts_with('[') && field.ends_with(']')
}
