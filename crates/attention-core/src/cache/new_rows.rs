//! The rows of a call that a cache stores.

use std::ops::Range;

/// Which new rows of a call are tokens; the others are padding, which no cache stores and which, as queries, attend to
/// no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewRows<'a> {
    /// All rows of every example.
    #[default]
    All,
    /// The first rows of each example, the given number of them: padding is at the right.
    First(&'a [usize]),
    /// The last rows of each example, the given number of them: padding is at the left.
    Last(&'a [usize]),
}

impl NewRows<'_> {
    /// The rows of each of `batch` examples that are tokens.
    ///
    /// # Panics
    /// If the number of examples differs, or there are more tokens than rows.
    pub fn ranges(self, [batch, num_rows]: [usize; 2]) -> Vec<Range<usize>> {
        let lens = match self {
            Self::All => return vec![0..num_rows; batch],
            Self::First(lens) | Self::Last(lens) => lens,
        };
        assert!(
            lens.len() == batch,
            "NewRows: a number of tokens expected for each of {batch} examples, got {}",
            lens.len()
        );
        if let Some(len) = lens.iter().find(|len| **len > num_rows) {
            panic!("NewRows: at most {num_rows} tokens expected, as many as rows, got {len}");
        }
        let range = |&len: &usize| match self {
            Self::Last(_) => num_rows - len..num_rows,
            _ => 0..len,
        };
        lens.iter().map(range).collect()
    }
}
