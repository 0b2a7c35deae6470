//! A line of a pronunciation dictionary in its fields.

use crate::text::tokens::trim;

/// The fields of a line that is no comment.
pub(super) struct Entry<'a> {
    /// The fields of the word: those before the first TAB, but for numbers and brackets at their end; without a TAB,
    /// the first field.
    pub(super) word: Vec<&'a str>,
    /// The fields behind it.
    pub(super) rest: Vec<&'a str>,
    pub(super) has_tab: bool,
    /// Whether a number with a point or a bracket stands before that TAB.
    pub(super) has_column: bool,
    /// Whether the first cell behind a TAB is one field, and others follow.
    pub(super) has_cell: bool,
    /// The comment behind the fields, from a field that begins with `#`.
    pub(super) comment: &'a str,
}

impl<'a> Entry<'a> {
    /// The fields of a line, none if it is empty or a comment.
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let line = trim(line);
        let first = fields(line).next()?;
        let is_of = |sign: char| first.chars().all(|it| it == sign);
        if is_of('#') || first.starts_with("##") || first.starts_with(";;;") || first == ";;" {
            return None;
        }
        let (line, comment) = line.split_at(comment_at(line));
        let line = trim(line);
        let Some((head, tail)) = line.split_once('\t') else {
            let mut rest = fields(line);
            return Some(Self {
                word: rest.by_ref().take(1).collect(),
                rest: rest.collect(),
                has_tab: false,
                has_column: false,
                has_cell: false,
                comment,
            });
        };
        let mut word: Vec<&str> = fields(head).collect();
        let is_output =
            |at: usize| word[at].starts_with('[') && word[word.len() - 1].ends_with(']');
        let are_columns = |&at: &usize| is_output(at) || word[at..].iter().all(|it| is_column(it));
        let columns = (1..word.len()).find(are_columns).unwrap_or(word.len());
        let mut rest = word.split_off(columns);
        let mut cells = tail
            .split('\t')
            .filter(|cell| fields(cell).next().is_some());
        let is_field = cells.next().is_some_and(|cell| fields(cell).count() == 1);
        let has_column = !rest.is_empty();
        rest.extend(fields(tail));
        Some(Self {
            word,
            has_column,
            rest,
            has_tab: true,
            has_cell: is_field && cells.next().is_some(),
            comment,
        })
    }

    /// The number of fields behind the word that are numbers, the last field not among them if it is an integer.
    pub(super) fn numbers(&self) -> usize {
        let is_number = |field: &&&str| is_decimal(field) || is_integer(field);
        let count = self.rest.iter().take_while(is_number).count();
        match self.rest.last() {
            Some(last) if count == self.rest.len() && is_integer(last) => count - 1,
            _ => count,
        }
    }
}

/// The parts of a text that spaces and TABs divide.
pub(super) fn fields(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t']).filter(|field| !field.is_empty())
}

/// The end of a line before the field that begins with `#`, unless that is the first.
fn comment_at(line: &str) -> usize {
    let begins = |&at: &usize| line[..at].ends_with([' ', '\t']);
    let mut signs = line.match_indices('#').map(|(at, _)| at);
    signs.find(begins).unwrap_or(line.len())
}

/// Whether a field is a number with a point, an exponent or a minus, which is no phoneme anywhere.
pub(super) fn is_decimal(field: &str) -> bool {
    let is_written = |it: &str| it.contains(['.', '-', '+']);
    let is_number = field.ends_with(|it: char| it.is_ascii_digit()) && field.parse::<f64>().is_ok();
    is_number && is_written(field)
}

/// Whether a field is a number that may be a phoneme: X-SAMPA has digits.
pub(super) fn is_integer(field: &str) -> bool {
    field.bytes().all(|it| it.is_ascii_digit())
}

/// Whether a field is in brackets, as HTK writes the output of a word.
fn is_bracket(field: &str) -> bool {
    field.len() > 1 && field.starts_with('[') && field.ends_with(']')
}

/// Whether a field is none of a word before a TAB, nor a phoneme.
pub(in crate::data::pair_file) fn is_column(field: &str) -> bool {
    is_decimal(field) || is_bracket(field)
}
