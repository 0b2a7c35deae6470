//! Masks of positions: causal masks and windows, along one of two diagonals.

use super::{Mask, Parts, both};
use crate::ops::Intervals;

/// The windows around a query's position, for each of the two ways to count positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Windows {
    /// The last query stands at the last key: query `i` at `i + keys - queries`.
    pub(super) bottom_right: Option<Window>,
    /// The first query stands at the first key: query `i` at `i`.
    pub(super) top_left: Option<Window>,
}

/// Keys at most `before` before and `after` after the query's position; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

impl Mask {
    /// Query `i` attends to the keys up to its own position: `key <= i + keys - queries`.
    ///
    /// The diagonal is aligned bottom-right, as in Burn's `attention`: the last query attends to every key. This is the
    /// mask for decoding, where the queries of a call, even a single one, are the last of the text.
    /// [`causal_top_left`](Self::causal_top_left) is the other alignment; the two agree where queries and keys are
    /// equal in number.
    pub fn causal() -> Self {
        Self::of_windows(Some(Window::CAUSAL), None)
    }

    /// Query `i` attends to the keys `0 ..= i`, however many keys there are.
    ///
    /// The diagonal is aligned top-left: the first query attends to the first key alone. With more queries than keys,
    /// the later ones attend to every key. PyTorch's `scaled_dot_product_attention`, ONNX's `Attention` and JAX's
    /// `dot_product_attention` call it `is_causal`, Keras `use_causal_mask`.
    ///
    /// **Not for decoding**: `i` counts the queries of a call. The only query of a step through
    /// [`Attention::attend`](crate::Attention::attend) stands at position 0 and attends to the first key alone, as in
    /// the libraries above; use [`causal`](Self::causal) instead. Rotary embedding and biases of positions count as
    /// `causal` does.
    pub fn causal_top_left() -> Self {
        Self::of_windows(None, Some(Window::CAUSAL))
    }

    /// Query `i` attends to the key at its own position `i + keys - queries`, and to at most `before` keys before and
    /// `after` keys after it. [`sliding_window`](Self::sliding_window) counts the query's own key as well.
    ///
    /// Only a call knows where its queries stand. `forward` thus knows which keys the window masks for all queries;
    /// [`Attention::prepare`](crate::Attention::prepare) does not, so its keys must be finite if a gradient of their
    /// projection is wanted.
    pub fn window(before: usize, after: usize) -> Self {
        Self::of_windows(Some(Window::new(before, after)), None)
    }

    /// Query `i` attends to its own key and the `size - 1` before it: as in Mistral's `sliding_window` and
    /// [`KeyValueCache::with_window`](crate::KeyValueCache::with_window). [`window`](Self::window) counts only the
    /// other keys.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn sliding_window(size: usize) -> Self {
        assert!(
            size > 0,
            "Mask::sliding_window: a size of at least 1 expected, the query's own key, got 0"
        );
        Self::window(size - 1, 0)
    }

    /// [`window`](Self::window), aligned top-left: query `i` attends to key `i` and to at most `before` keys before and
    /// `after` keys after it, with the positions of [`causal_top_left`](Self::causal_top_left).
    pub fn window_top_left(before: usize, after: usize) -> Self {
        Self::of_windows(None, Some(Window::new(before, after)))
    }

    fn of_windows(bottom_right: Option<Window>, top_left: Option<Window>) -> Self {
        let windows = Windows {
            bottom_right,
            top_left,
        };
        Parts {
            windows,
            ..Parts::default()
        }
        .into()
    }
}

impl Windows {
    /// Whether there is no window.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The intersection of the windows, for each diagonal.
    pub(super) fn intersect(self, other: Self) -> Self {
        Self {
            bottom_right: both(self.bottom_right, other.bottom_right, Window::intersect),
            top_left: both(self.top_left, other.top_left, Window::intersect),
        }
    }

    /// The keys of each query within both windows.
    pub(super) fn intervals(self, num_queries: usize, num_keys: usize) -> Option<Intervals> {
        let (queries, keys) = (num_queries as i64, num_keys as i64);
        let around = |first: i64| {
            move |window: Window| Intervals {
                bounds: window.bounds(first, [queries, keys]),
                shape: [1, num_queries],
            }
        };
        let bottom_right = self.bottom_right.map(around(keys - queries));
        let top_left = self.top_left.map(around(0));
        both(bottom_right, top_left, |a, b| a.intersect(&b))
    }
}

impl Window {
    pub(super) const CAUSAL: Self = Self {
        before: None,
        after: Some(0),
    };

    pub(super) fn new(before: usize, after: usize) -> Self {
        Self {
            before: Some(before),
            after: Some(after),
        }
    }

    fn intersect(self, other: Self) -> Self {
        Self {
            before: both(self.before, other.before, usize::min),
            after: both(self.after, other.after, usize::min),
        }
    }

    /// The first key that a query attends to and one past the last, per query, clamped to the keys; the first query
    /// stands at `first`.
    pub(super) fn bounds(self, first: i64, [queries, keys]: [i64; 2]) -> Vec<[usize; 2]> {
        // No query and key are farther apart than this.
        let reach = |limit: Option<usize>| {
            let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
            limit.min(queries + keys)
        };
        let (before, after) = (reach(self.before), reach(self.after));
        let bounds = |position: i64| {
            let within = |bound: i64| bound.clamp(0, keys) as usize;
            [within(position - before), within(position + after + 1)]
        };
        (first..first + queries).map(bounds).collect()
    }
}
