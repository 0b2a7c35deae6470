//! The part of a cache that a call attends to.

use std::ops::Range;

use crate::functional::KeysAndValues;
use crate::position::Positions;

/// The keys of a call, and its queries among them.
pub(crate) struct Cached {
    pub(crate) rows: KeysAndValues,
    /// The positions of the queries.
    pub(crate) positions: Positions,
    /// For each example, the rows of queries that are tokens, and the number of keys up to the last token; `None` if
    /// all examples are alike.
    pub(crate) ragged: Option<Vec<(Range<usize>, usize)>>,
}
