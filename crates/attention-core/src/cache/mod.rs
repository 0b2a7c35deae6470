//! Keys and values of texts that grow: what generation attends to.

mod append;
mod cached;
mod cached_keys;
mod new_rows;
mod rows;

use std::iter::repeat_n;
use std::ops::Range;

use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::position::Positions;
pub(crate) use cached::Cached;
pub use cached_keys::CachedKeys;
pub use new_rows::NewRows;
use rows::{Example, Rows};

/// The keys and values of each example so far, of any length per example; projected once, and appended in place. They
/// are copied when the space is doubled, or when a window has used it up.
///
/// [`Attention::forward_cached`](crate::Attention::forward_cached) and
/// [`MultiHeadAttention::forward_cached`](crate::MultiHeadAttention::forward_cached) append the keys and values of a
/// call and attend with its queries, the last ones of the text: a query attends to the keys up to its own, with a
/// window to at most that many. The prompt and each later token go through the same call.
///
/// A cache is for generation, without autodiff, and belongs to the module that filled it.
///
/// ```
/// use attention_core::{KeyValueCache, Mask, MultiHeadAttentionConfig, NewRows};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = MultiHeadAttentionConfig::new(16, 4).init(&device);
/// let mut cache = KeyValueCache::new();
/// // Two prompts, of 3 and of 5 tokens.
/// let prompt = Tensor::<3>::ones([2, 5, 16], &device);
/// let rows = NewRows::First(&[3, 5]);
/// attention.forward_cached(prompt.clone(), prompt.clone(), prompt, rows, &mut cache, Mask::none());
/// let token = Tensor::<3>::ones([2, 1, 16], &device);
/// let context =
///     attention.forward_cached(token.clone(), token.clone(), token, NewRows::All, &mut cache, Mask::none());
/// assert_eq!(context.dims(), [2, 1, 16]);
/// assert_eq!(cache.lengths(), [4, 6]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    pub(crate) window: Option<usize>,
    capacity: Option<usize>,
    rows: Option<Rows>,
    /// The tokens of each example.
    examples: Vec<Example>,
}

impl KeyValueCache {
    /// An empty cache that grows by doubling.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty cache with space for `capacity` tokens of each example. A call that would exceed it panics.
    ///
    /// With a [window](Self::with_window), `window - 1` tokens and the tokens of a call must fit; the more space is
    /// left, the less often keys are moved to the start.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: Some(capacity),
            ..Self::default()
        }
    }

    /// Limits attention to a query's own key and the `window - 1` before it; older keys are forgotten.
    ///
    /// # Panics
    /// If `window` is 0 or above the capacity, or the cache is not empty.
    pub fn with_window(mut self, window: usize) -> Self {
        let most = self.capacity.unwrap_or(usize::MAX);
        assert!(
            (1..=most).contains(&window),
            "KeyValueCache: a window in 1 ..= {most} expected, as the capacity is, got {window}"
        );
        assert!(
            self.rows.is_none(),
            "KeyValueCache: a window expected for an empty cache, got one of lengths {:?}",
            self.lengths()
        );
        self.window = Some(window);
        self
    }

    /// An empty cache, with a window if one is given.
    ///
    /// # Panics
    /// If the window is 0.
    pub fn of_window(window: Option<usize>) -> Self {
        window.map_or_else(Self::new, |window| Self::new().with_window(window))
    }

    /// The number of tokens that each example has seen, evicted ones included; empty before the first call.
    pub fn lengths(&self) -> Vec<usize> {
        let lengths = self.examples.iter();
        lengths.map(|of| of.evicted + of.kept).collect()
    }

    /// Forgets the last tokens of each example; the first `lengths[b]` of example `b` remain.
    ///
    /// # Panics
    /// If `lengths` has another number of examples, an example has fewer tokens, or keys that its window would then
    /// need are evicted.
    pub fn truncate(&mut self, lengths: &[usize]) {
        let examples = self.examples.len();
        assert!(
            lengths.len() == examples,
            "KeyValueCache::truncate: {examples} lengths expected, got {}",
            lengths.len()
        );
        for (b, (example, &length)) in self.examples.iter_mut().zip(lengths).enumerate() {
            let last = example.evicted + example.kept;
            let first = match (example.evicted, self.window) {
                (1.., Some(window)) => last.min(example.evicted.saturating_add(window - 1)),
                _ => 0,
            };
            assert!(
                (first..=last).contains(&length),
                "KeyValueCache::truncate: a length in {first} ..= {last} expected for example {b}, got {length}"
            );
            example.kept = length - example.evicted;
        }
    }

    /// Keeps the examples `indices`, in that order, as beam search does after a step. Nothing is copied before the next
    /// call that appends, and nothing at all if every example is kept in its place.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If an index is no example, or the indices are on another device.
    pub fn select(&mut self, indices: Tensor<1, Int>) {
        let examples = self.examples.len();
        let rows: Vec<i64> = indices.clone().into_data().iter::<i64>().collect();
        let is_example = |&row: &i64| (0..examples as i64).contains(&row);
        assert!(
            rows.iter().all(is_example),
            "KeyValueCache::select: indices in 0 .. {examples} expected, got {rows:?}"
        );
        let rows = rows.into_iter().map(|row| row as usize);
        if let Some(stored) = &mut self.rows {
            let first = Argument::on_device("keys", &stored.keys);
            let indices = Argument::on_device("indices", &indices);
            assert_together("KeyValueCache::select", first, [indices]);
            stored.select(rows.clone());
        }
        self.examples = rows.map(|row| self.examples[row]).collect();
    }

    /// Repeats every example `beam` times, copies next to each other. Only a later call that appends copies anything.
    pub fn expand(&mut self, beam: usize) {
        let rows = (0..self.examples.len()).flat_map(|row| repeat_n(row, beam));
        if let Some(stored) = &mut self.rows {
            stored.select(rows.clone());
        }
        self.examples = rows.map(|row| self.examples[row]).collect();
    }

    /// The positions of `num_rows` new rows, on `device`. The rows `tokens` are tokens; padding has position 0.
    ///
    /// # Panics
    /// If the number of examples differs.
    pub fn positions(
        &self,
        tokens: &[Range<usize>],
        num_rows: usize,
        device: &Device,
    ) -> Positions {
        let batch = tokens.len();
        self.assert_examples(batch);
        let mut starts = self.lengths();
        starts.resize(batch, 0);
        let is_whole = tokens.iter().all(|of| *of == (0..num_rows));
        match starts.first() {
            Some(&start) if is_whole && starts.iter().all(|other| *other == start) => {
                Positions::consecutive(start as i64)
            }
            _ => {
                let of_example = |(start, tokens): (&usize, &Range<usize>)| {
                    let (start, tokens) = (*start, tokens.clone());
                    (0..num_rows).map(move |row| match tokens.contains(&row) {
                        true => (start + row - tokens.start) as i64,
                        false => 0,
                    })
                };
                let positions: Vec<i64> = starts.iter().zip(tokens).flat_map(of_example).collect();
                Positions::of_rows(positions, [batch, num_rows], device)
            }
        }
    }

    /// # Panics
    /// If the number of examples differs.
    fn assert_examples(&self, batch: usize) {
        assert!(
            self.examples.is_empty() || self.examples.len() == batch,
            "KeyValueCache: {} examples expected, as before, got {batch}",
            self.examples.len()
        );
    }

    /// The number of rows that the longest example has.
    pub(crate) fn longest(&self) -> usize {
        self.examples.iter().map(|of| of.kept).max().unwrap_or(0)
    }
}
