//! A mask as it crosses the door.

use burn::backend::tensor::{BoolTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};

/// Which keys each query sees, as backend tensors. Intervals stay intervals: two integers per query.
///
/// # Shapes
/// - `start` and `end`: `[batch or 1, 1, queries or 1, 1]`, query `i` sees the keys `start_i .. end_i`, with
///   `0 <= start_i` and `end_i <= keys`; the interval is empty where `end_i <= start_i`
/// - `keep`: `[batch or 1, heads or 1, queries or 1, keys or 1]`, true where the query sees the key
#[derive(Clone, Debug, ExtensionType)]
pub enum MaskPrimitive<B: Backend> {
    /// Every query sees every key.
    None,
    /// One interval of keys per query.
    Intervals {
        /// The first visible key.
        start: IntTensor<B>,
        /// One past the last visible key.
        end: IntTensor<B>,
    },
    /// An arbitrary boolean mask.
    Dense {
        /// True where the query sees the key.
        keep: BoolTensor<B>,
    },
    /// Both: a key must lie in the interval and be kept.
    IntervalsAndDense {
        /// The first visible key.
        start: IntTensor<B>,
        /// One past the last visible key.
        end: IntTensor<B>,
        /// True where the query sees the key.
        keep: BoolTensor<B>,
    },
}
