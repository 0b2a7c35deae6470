//! Shapes in letters: `"A D"` is a matrix of `num_hiddens` rows and `key_size` columns, `"O D+Q"` one whose rows are as
//! long as a key and a query together. A file gives the letters their sizes.

use std::collections::BTreeMap;

/// The sizes that the letters have in a file.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<char, usize>);

impl Sizes {
    /// The size of a letter that a tensor of the file has.
    pub(super) fn of(&self, letter: char) -> usize {
        self.0[&letter]
    }

    /// Takes over the sizes that are new in a tensor of the shape `got`.
    ///
    /// # Errors
    /// The shape that was expected, if `got` does not fit it.
    pub(super) fn fit(&mut self, shape: &str, got: &[usize]) -> Result<(), String> {
        let axes: Vec<&str> = shape.split_whitespace().collect();
        let mut pairs = axes.iter().zip(got);
        let fits = axes.len() == got.len() && pairs.all(|(axis, &size)| self.fit_axis(axis, size));
        if fits { Ok(()) } else { Err(self.shown(&axes)) }
    }

    /// An axis has at most one letter that is new, which stands for what the others leave of its size.
    fn fit_axis(&mut self, axis: &str, size: usize) -> bool {
        let new = letters(axis).find(|letter| self.known(*letter).is_none());
        let known: usize = letters(axis).filter_map(|letter| self.known(letter)).sum();
        match new {
            // A kernel has a middle.
            Some(letter) if size > known && (letter != 'W' || size % 2 == 1) => {
                self.0.insert(letter, size - known);
                true
            }
            Some(_) => false,
            None => size == known,
        }
    }

    fn known(&self, letter: char) -> Option<usize> {
        let literal = letter.to_digit(10).map(|digit| digit as usize);
        literal.or_else(|| self.0.get(&letter).copied())
    }

    fn shown(&self, axes: &[&str]) -> String {
        let size = |letter| match self.known(letter) {
            Some(size) => size.to_string(),
            None => name(letter).to_string(),
        };
        let axis = |axis: &&str| letters(axis).map(size).collect::<Vec<_>>().join(" + ");
        format!("[{}]", axes.iter().map(axis).collect::<Vec<_>>().join(", "))
    }
}

fn letters(axis: &str) -> impl Iterator<Item = char> {
    axis.chars().filter(|letter| *letter != '+')
}

/// The size that a letter stands for.
fn name(letter: char) -> &'static str {
    match letter {
        'A' => "num_hiddens",
        'C' => "filters",
        'D' => "key_size",
        'O' => "output_size",
        'P' => "previous_output_size",
        'Q' => "query_size",
        'W' => "odd kernel_size",
        _ => "any",
    }
}
