//! Masks of examples that are packed into one row.

use burn::tensor::{Int, Tensor};

use super::positions::Window;
use super::{Mask, Parts, selected};
use crate::ops::Intervals;

/// The lengths of the segments of each row, for queries and for keys; a single row serves all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segments {
    /// The function that made it.
    maker: &'static str,
    queries: Vec<Vec<usize>>,
    keys: Vec<Vec<usize>>,
    /// The window of each segment, whose last query stands at its last key; `None` if queries attend to all its keys.
    window: Option<Window>,
}

impl Mask {
    /// Query `i` attends to the keys of its own segment: several examples are packed into one row, one after the other,
    /// and `lens[b]` has the lengths of the segments of row `b`. Positions after the last segment are padding: they
    /// attend to nothing, and nothing attends to them. A single row serves all rows; a segment may have length 0.
    ///
    /// With [`causal`](Self::causal) each query attends to the keys of its own segment up to itself, if a row has as
    /// many queries as keys: causal masks and windows count positions in whole rows. Keys that only the combination
    /// masks, or whose segment has no query, are known as late as the masked keys of a [`window`](Self::window).
    ///
    /// PyTorch equivalent: FlashAttention's `flash_attn_varlen_func`, whose `cu_seqlens` are the cumulative sums of
    /// `lens`; for `causal=True`, use [`segments_causal`](Self::segments_causal).
    ///
    /// ```
    /// use attention_core::{DotProductAttentionConfig, Mask};
    /// use burn::prelude::*;
    ///
    /// let device = Device::flex();
    /// // Two rows of seven: examples of 3 and 4 tokens, and of 5 tokens with two of padding.
    /// let rows = Tensor::<3>::ones([2, 7, 4], &device);
    /// let mask = Mask::segments(&[vec![3, 4], vec![5]]) & Mask::causal();
    /// let attention = DotProductAttentionConfig::new().init();
    /// let context = attention.forward(rows.clone(), rows.clone(), rows, &mask);
    /// assert_eq!(context.dims(), [2, 7, 4]);
    /// ```
    ///
    /// # Panics
    /// When the mask is used, if the segments of a row are together longer than the queries or the keys, or the number
    /// of rows is neither 1 nor the number of examples.
    pub fn segments(lens: &[impl AsRef<[usize]>]) -> Self {
        Self::of_segments(Segments::new("Mask::segments", lens, lens, None))
    }

    /// [`segments`](Self::segments) for cross-attention: in each row, the queries of the `n`-th segment, of
    /// `query_lens`, attend to the keys of the `n`-th segment, of `key_lens`.
    ///
    /// # Panics
    /// If the two differ in the number of rows or of segments in a row; and as [`segments`](Self::segments).
    pub fn segments_across(
        query_lens: &[impl AsRef<[usize]>],
        key_lens: &[impl AsRef<[usize]>],
    ) -> Self {
        const NAME: &str = "Mask::segments_across";
        Self::of_segments(Segments::new(NAME, query_lens, key_lens, None))
    }

    /// [`segments_across`](Self::segments_across), causal within each segment: its last query attends to all its keys,
    /// the query before it to one key less, and so on. Queries that stand before the first key attend to nothing.
    ///
    /// PyTorch equivalent: FlashAttention's `flash_attn_varlen_func` with `causal=True`.
    ///
    /// # Panics
    /// As [`segments_across`](Self::segments_across).
    ///
    /// ```
    /// use attention_core::{DotProductAttentionConfig, Mask};
    /// use burn::prelude::*;
    ///
    /// let device = Device::flex();
    /// // Two texts with caches of 4 and 6 tokens; the last 1 and 3 are new.
    /// let mask = Mask::segments_causal(&[[1, 3]], &[[4, 6]]);
    /// let queries = Tensor::<3>::ones([1, 4, 8], &device);
    /// let rows = Tensor::<3>::ones([1, 10, 8], &device);
    /// let attention = DotProductAttentionConfig::new().init();
    /// let context = attention.forward(queries, rows.clone(), rows, mask);
    /// assert_eq!(context.dims(), [1, 4, 8]);
    /// ```
    pub fn segments_causal(
        query_lens: &[impl AsRef<[usize]>],
        key_lens: &[impl AsRef<[usize]>],
    ) -> Self {
        const NAME: &str = "Mask::segments_causal";
        let window = Some(Window::CAUSAL);
        Self::of_segments(Segments::new(NAME, query_lens, key_lens, window))
    }

    /// [`segments_causal`](Self::segments_causal) with a [`window`](Self::window) in each segment: a query attends to
    /// the keys of its segment at most `before` before and `after` after its own position; the last query stands at the
    /// last key.
    ///
    /// PyTorch equivalent: FlashAttention's `flash_attn_varlen_func` with `window_size=(before, after)`; an `after` of
    /// 0 is its `causal=True`.
    ///
    /// # Panics
    /// As [`segments_across`](Self::segments_across).
    pub fn segments_window(
        query_lens: &[impl AsRef<[usize]>],
        key_lens: &[impl AsRef<[usize]>],
        [before, after]: [usize; 2],
    ) -> Self {
        const NAME: &str = "Mask::segments_window";
        let window = Some(Window::new(before, after));
        Self::of_segments(Segments::new(NAME, query_lens, key_lens, window))
    }

    fn of_segments(segments: Segments) -> Self {
        Parts {
            segments: vec![segments],
            ..Parts::default()
        }
        .into()
    }
}

impl Segments {
    /// # Panics
    /// If queries and keys differ in the number of rows or of segments in a row.
    pub(super) fn new(
        maker: &'static str,
        queries: &[impl AsRef<[usize]>],
        keys: &[impl AsRef<[usize]>],
        window: Option<Window>,
    ) -> Self {
        assert!(
            queries.len() == keys.len(),
            "{maker}: expected as many rows of keys as of queries, {}, got {}",
            queries.len(),
            keys.len()
        );
        for (row, (queries, keys)) in queries.iter().zip(keys).enumerate() {
            let [queries, keys] = [queries.as_ref().len(), keys.as_ref().len()];
            assert!(
                queries == keys,
                "{maker}: row {row} expected as many segments of keys as of queries, {queries}, got {keys}"
            );
        }
        Self {
            maker,
            queries: queries.iter().map(|row| row.as_ref().to_vec()).collect(),
            keys: keys.iter().map(|row| row.as_ref().to_vec()).collect(),
            window,
        }
    }

    /// The number of rows.
    pub(super) fn batch(&self) -> usize {
        self.queries.len()
    }

    /// # Panics
    /// If the segments of a row are longer than the axis on which they lie.
    pub(super) fn check_lengths(&self, num_queries: usize, num_keys: usize) {
        let axes = [
            ("queries", &self.queries, num_queries),
            ("keys", &self.keys, num_keys),
        ];
        for (axis, rows, size) in axes {
            for (row, lens) in rows.iter().enumerate() {
                assert!(
                    total(lens) <= size,
                    "{}: row {row} expected segments of at most {size} {axis} together, got {lens:?}",
                    self.maker
                );
            }
        }
    }

    /// The keys of each query's own segment, within its window if any; none for a query after the last segment.
    pub(super) fn intervals(&self, num_queries: usize) -> Intervals {
        let mut bounds = Vec::with_capacity(self.batch() * num_queries);
        for (row, (queries, keys)) in self.queries.iter().zip(&self.keys).enumerate() {
            let mut first = 0;
            for (&queries, &keys) in queries.iter().zip(keys) {
                let of_segment = match self.window {
                    Some(window) => {
                        let sizes @ [queries, keys] = [queries, keys].map(|len| len as i64);
                        window.bounds(keys - queries, sizes)
                    }
                    None => vec![[0, keys]; queries],
                };
                bounds.extend(of_segment.into_iter().map(|of| of.map(|key| first + key)));
                first += keys;
            }
            bounds.resize((row + 1) * num_queries, [0, 0]);
        }
        Intervals {
            bounds,
            shape: [self.batch(), num_queries],
        }
    }

    /// The padding that is known whatever the queries are: each of `num_queries` attends to the keys of all segments.
    pub(super) fn of_any_queries(&self, num_queries: usize) -> Self {
        let total = |lens: &Vec<usize>| vec![total(lens)];
        Self {
            maker: self.maker,
            queries: vec![vec![num_queries]; self.batch()],
            keys: self.keys.iter().map(total).collect(),
            window: None,
        }
    }

    /// The segments of the rows `indices`, in that order, which are read to the host.
    ///
    /// # Panics
    /// If an index is no row.
    pub(super) fn select(&self, indices: Tensor<1, Int>) -> Self {
        if self.batch() == 1 {
            return self.clone();
        }
        self.rows(selected(indices, self.batch()))
    }

    /// Repeats every row `times` times, the copies next to each other.
    pub(super) fn expand(&self, times: usize) -> Self {
        if self.batch() == 1 {
            return self.clone();
        }
        self.rows((0..self.batch() * times).map(|row| row / times))
    }

    fn rows(&self, rows: impl Iterator<Item = usize>) -> Self {
        let (queries, keys) = rows
            .map(|row| (self.queries[row].clone(), self.keys[row].clone()))
            .unzip();
        Self {
            maker: self.maker,
            queries,
            keys,
            window: self.window,
        }
    }
}

/// The sum; the largest number if it would overflow and seem to fit.
fn total(lens: &[usize]) -> usize {
    lens.iter().copied().fold(0, usize::saturating_add)
}
