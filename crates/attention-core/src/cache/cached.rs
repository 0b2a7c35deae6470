//! The part of a cache that a call attends to.

use std::ops::Range;

use crate::functional::KeysAndValues;
use crate::position::Positions;

/// The keys of a call, and its queries among them.
pub(crate) struct Cached {
    pub(crate) rows: KeysAndValues,
    /// Where the queries stand.
    pub(crate) positions: Positions,
    /// The rows of queries that are tokens, and the keys up to the last of them, of each example; `None` if they are
    /// the same in all.
    pub(crate) ragged: Option<Vec<(Range<usize>, usize)>>,
}
