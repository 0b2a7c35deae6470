//! Shapes in letters: `"A D"` is a matrix of `num_hiddens` rows and `key_size` columns, `"O D+Q"` one whose rows have
//! the sizes of a key and a query together, `"3H I"` one with three gates. A file determines the sizes of the letters.

use std::collections::BTreeMap;

/// The sizes of the letters in a file.
#[derive(Debug)]
pub(super) struct Sizes(BTreeMap<char, usize>);

impl Sizes {
    /// Sizes with at most the number of heads known.
    pub(super) fn of_heads(num_heads: Option<usize>) -> Self {
        Self(num_heads.map(|number| ('N', number)).into_iter().collect())
    }

    /// The size of a letter that occurs in a tensor of the file.
    pub(super) fn of(&self, letter: char) -> usize {
        self.0[&letter]
    }

    /// Determines the sizes of new letters from a tensor of the shape `got`. The input of a layer after another has the
    /// size of a state.
    ///
    /// # Errors
    /// The expected shape, if `got` does not fit it.
    pub(super) fn fit(&mut self, shape: &str, got: &[usize], layer: usize) -> Result<(), String> {
        let shape = &shape.replace('I', if layer > 0 { "H" } else { "I" });
        let axes: Vec<&str> = shape.split_whitespace().collect();
        let mut pairs = axes.iter().zip(got);
        let fits = axes.len() == got.len() && pairs.all(|(axis, &size)| self.fit_axis(axis, size));
        if fits { Ok(()) } else { Err(self.shown(&axes)) }
    }

    /// An axis has at most one new letter, whose size is the rest of the axis.
    fn fit_axis(&mut self, axis: &str, size: usize) -> bool {
        let new = letters(axis).find(|letter| self.known(*letter).is_none());
        let (mut known, mut factor) = (0, 0);
        for term in axis.split('+') {
            let others = term.chars().filter(|letter| Some(*letter) != new);
            let sizes = others.map(|letter| self.known(letter));
            let Some(product) = sizes.product::<Option<usize>>() else {
                return false;
            };
            match new.filter(|letter| term.contains(*letter)) {
                Some(_) => factor += product,
                None => known += product,
            }
        }
        match new {
            // A kernel is odd, so that it has a middle.
            Some(letter) => {
                let left = size.saturating_sub(known);
                let is_whole = left > 0 && factor > 0 && left.is_multiple_of(factor);
                let fits = is_whole && (letter != 'W' || size % 2 == 1);
                if fits {
                    self.0.insert(letter, left / factor);
                }
                fits
            }
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
        let term = |term: &str| term.chars().map(size).collect::<Vec<_>>().join(" * ");
        let axis = |axis: &&str| axis.split('+').map(term).collect::<Vec<_>>().join(" + ");
        format!("[{}]", axes.iter().map(axis).collect::<Vec<_>>().join(", "))
    }
}

fn letters(axis: &str) -> impl Iterator<Item = char> {
    axis.chars().filter(|letter| *letter != '+')
}

/// The name of the size that a letter stands for.
fn name(letter: char) -> &'static str {
    match letter {
        'A' => "num_hiddens",
        'C' => "filters",
        'D' => "key_size",
        'H' => "hidden_size",
        'I' => "input_size",
        'N' => "num_heads",
        'O' => "output_size",
        'P' => "previous_output_size",
        'Q' => "query_size",
        'S' => "head_size",
        'U' => "value_head_size",
        'V' => "value_size",
        'W' => "odd kernel_size",
        _ => "any",
    }
}
