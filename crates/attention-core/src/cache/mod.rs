//! Keys and values of texts that grow: what generation attends to.

mod attend;
mod cached;
mod cached_keys;
mod new_rows;
mod rows;

use std::iter::{repeat, repeat_n};
use std::ops::Range;

use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::mask::Mask;
use crate::memory::Memory;
use crate::owner::Owner;
use crate::position::Positions;
pub(crate) use attend::check_options;
pub(crate) use cached::Cached;
pub use cached_keys::CachedKeys;
pub use new_rows::NewRows;
use rows::{Example, Rows, assert_without_autodiff, write};

/// Keys and values that were attended to so far, each example with its own length; projected once, and appended to
/// where they are. What is there is copied when the space is doubled, or a window has used it up.
///
/// [`Attention::forward_cached`](crate::Attention::forward_cached) and
/// [`MultiHeadAttention::forward_cached`](crate::MultiHeadAttention::forward_cached) append the keys and values of a
/// call and attend with its queries, the last ones of the text: a query attends to the keys up to its own, at most as
/// many as the window has. The prompt and each token after it go through the same call.
///
/// It is for generation, without autodiff, and for the module that filled it.
///
/// ```
/// use attention_core::{KeyValueCache, MultiHeadAttentionConfig, NewRows};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = MultiHeadAttentionConfig::new(16, 4).init(&device);
/// let mut cache = KeyValueCache::new();
/// // Two prompts, of 3 and of 5 tokens.
/// let prompt = Tensor::<3>::ones([2, 5, 16], &device);
/// let rows = NewRows::First(&[3, 5]);
/// attention.forward_cached(prompt.clone(), prompt.clone(), prompt, rows, &mut cache);
/// let token = Tensor::<3>::ones([2, 1, 16], &device);
/// let context =
///     attention.forward_cached(token.clone(), token.clone(), token, NewRows::All, &mut cache);
/// assert_eq!(context.dims(), [2, 1, 16]);
/// assert_eq!(cache.lengths(), [4, 6]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    window: Option<usize>,
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

    /// An empty cache with space for `capacity` tokens of each example. A call panics that would exceed it.
    ///
    /// With a [window](Self::with_window), `window - 1` tokens and a call's own must fit; the more space is left, the
    /// more seldom keys are moved to its start.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: Some(capacity),
            ..Self::default()
        }
    }

    /// The same, where a query attends to its own key and the `window - 1` before it, and older ones are forgotten.
    ///
    /// # Panics
    /// If `window` is 0 or above the capacity, or the cache is not empty.
    pub fn with_window(self, window: usize) -> Self {
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
        Self {
            window: Some(window),
            ..self
        }
    }

    /// An empty cache, with a window where there is one.
    ///
    /// # Panics
    /// If the window is 0.
    pub fn of_window(window: Option<usize>) -> Self {
        match window {
            Some(window) => Self::new().with_window(window),
            None => Self::new(),
        }
    }

    /// The number of tokens that each example has seen, evicted ones included; empty before the first call.
    pub fn lengths(&self) -> Vec<usize> {
        let lengths = self.examples.iter();
        lengths.map(|of| of.evicted + of.kept).collect()
    }

    /// Forgets the last tokens of each example, so that `lengths[b]` are left of it.
    ///
    /// # Panics
    /// If there are other numbers of examples, an example has fewer tokens, or keys in the window before that length
    /// are evicted.
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

    /// The examples `indices`, in that order: what a beam search keeps after a step. Nothing is copied before the next
    /// call that appends, and not then if they are all, in their order.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If one is no example, or the indices are on another device.
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

    /// Every example `beam` times, the copies next to each other. Nothing is copied before the next call that appends.
    pub fn expand(&mut self, beam: usize) {
        let rows = (0..self.examples.len()).flat_map(|row| repeat_n(row, beam));
        if let Some(stored) = &mut self.rows {
            stored.select(rows.clone());
        }
        self.examples = rows.map(|row| self.examples[row]).collect();
    }

    /// The positions of `num_rows` new rows, on `device`. The rows `tokens` are tokens; padding is at 0.
    ///
    /// # Panics
    /// If there are other numbers of examples.
    pub fn positions(
        &self,
        tokens: &[Range<usize>],
        num_rows: usize,
        device: &Device,
    ) -> Positions {
        let batch = tokens.len();
        assert!(
            self.examples.is_empty() || self.examples.len() == batch,
            "KeyValueCache: {} examples expected, as before, got {batch}",
            self.examples.len()
        );
        let examples = self
            .examples
            .iter()
            .copied()
            .chain(repeat(Example::default()));
        let lengths = examples.map(|of| of.evicted + of.kept);
        let starts: Vec<usize> = lengths.take(batch).collect();
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

    /// Appends projected keys `[batch, key_heads, rows, size]` and values, and says what queries of the same rows
    /// attend to.
    ///
    /// # Panics
    /// If they differ from those that are there in heads, sizes, type or device, were projected for another score, are
    /// on an autodiff device, or exceed the capacity.
    pub(crate) fn append<S: 'static>(
        &mut self,
        keys: Tensor<4>,
        values: Tensor<4>,
        tokens: &[Range<usize>],
        positions: Positions,
    ) -> Cached {
        let [_, _, num_rows, _] = keys.dims();
        if self.examples.is_empty() {
            self.examples = vec![Example::default(); tokens.len()];
        }
        self.reserve::<S>(&keys, &values, tokens);
        let before = self.examples.clone();
        let is_even = tokens.iter().all(|of| *of == (0..num_rows))
            && before.iter().all(|of| of.kept == before[0].kept);
        if let Some(rows) = &mut self.rows {
            let mut pairs = [(&mut rows.keys, keys), (&mut rows.values, values)];
            write(&mut pairs, &before, tokens, is_even);
        }
        for (example, tokens) in self.examples.iter_mut().zip(tokens) {
            example.kept += tokens.len();
        }
        let longest = self.examples.iter().map(|of| of.kept).max().unwrap_or(0);
        // A lone query reads nothing beyond its window.
        let window = self.window.unwrap_or(usize::MAX);
        let is_lone = is_even && num_rows == 1;
        let first = if is_lone {
            longest.saturating_sub(window)
        } else {
            0
        };
        let mask = if is_lone || num_rows == 0 {
            Mask::none()
        } else if is_even {
            match self.window {
                Some(window) => Mask::sliding_window(window),
                None => Mask::causal(),
            }
        } else {
            let of_example = |(of, tokens): (&Example, &Range<usize>)| {
                let bounds = |row: usize| match tokens.contains(&row) {
                    true => {
                        let end = of.kept + row - tokens.start + 1;
                        [end.saturating_sub(window), end]
                    }
                    false => [0, 0],
                };
                (0..num_rows).map(bounds).collect::<Vec<_>>()
            };
            let bounds: Vec<_> = before.iter().zip(tokens).map(of_example).collect();
            Mask::intervals(&bounds)
        };
        let rows = self.rows.as_ref().expect("it was reserved");
        let view = |tensor: &Tensor<4>| match longest - first {
            0 => {
                let [batch, heads, _, size] = tensor.dims();
                Tensor::empty([batch, heads, 0, size], (&tensor.device(), tensor.dtype()))
            }
            kept => tensor.clone().narrow(2, first, kept),
        };
        let ragged = (!is_even).then(|| {
            let of_example = |(of, tokens): (&Example, &Range<usize>)| (tokens.clone(), of.kept);
            self.examples.iter().zip(tokens).map(of_example).collect()
        });
        Cached {
            memory: Memory::of_cleared(view(&rows.keys), view(&rows.values), mask),
            positions,
            ragged,
        }
    }

    /// Makes space for the new tokens.
    fn reserve<S: 'static>(
        &mut self,
        keys: &Tensor<4>,
        values: &Tensor<4>,
        tokens: &[Range<usize>],
    ) {
        const NAME: &str = "KeyValueCache";
        if let Some(rows) = &mut self.rows {
            rows.part();
            if keys.dims()[2] == 0 {
                return; // They were not projected.
            }
        }
        let device = keys.device();
        assert_without_autodiff(&device);
        let owner = Owner::of::<S>();
        if let Some(rows) = &self.rows {
            let expected = rows.owner.unwrap_or(owner);
            assert!(
                expected == owner,
                "{NAME}: keys of {} expected, as before, got those of {}",
                expected.name,
                owner.name
            );
            for (name, stored, new) in
                [("keys", &rows.keys, keys), ("values", &rows.values, values)]
            {
                let [batch, heads, _, size] = stored.dims();
                let [new_batch, new_heads, _, new_size] = new.dims();
                let (expected, got) = ([batch, heads, size], [new_batch, new_heads, new_size]);
                assert!(
                    expected == got,
                    "{NAME}: {name} of [batch, key_heads, size] = {expected:?} expected, as before, got {got:?}"
                );
                let first = Argument::floats("keys that are there", stored);
                assert_together(NAME, first, [Argument::floats(name, new)]);
            }
        }
        let needed = |examples: &[Example]| {
            let all = examples.iter().zip(tokens);
            all.map(|(of, tokens)| of.kept + tokens.len())
                .max()
                .unwrap_or(0)
        };
        let space = self.rows.as_ref().map_or(0, |rows| rows.keys.dims()[2]);
        if let Some(rows) = &mut self.rows
            && needed(&self.examples) <= space
        {
            rows.owner = Some(owner);
            return;
        }
        // The first of the new queries needs the keys of its window alone.
        let kept = self.window.map_or(usize::MAX, |window| window - 1);
        let evicted = self.examples.iter().map(|of| {
            let evicted = of.kept.saturating_sub(kept);
            Example {
                evicted: of.evicted + evicted,
                kept: of.kept - evicted,
            }
        });
        let after: Vec<Example> = evicted.collect();
        let needed = needed(&after);
        let new_space = match (self.capacity, self.window) {
            (Some(capacity), _) => {
                assert!(
                    needed <= capacity,
                    "{NAME}: at most {capacity} tokens expected, the capacity, got {needed}"
                );
                capacity
            }
            // Twice the window, so that a key is moved once.
            (None, Some(window)) => needed.max(space.min(window).saturating_mul(2)),
            (None, None) => needed.max(2 * space),
        };
        let before = std::mem::replace(&mut self.examples, after);
        let kept = self.examples.iter().zip(&before);
        let kept: Vec<_> = kept
            .map(|(of, before)| before.kept - of.kept..before.kept)
            .collect();
        let grown = |stored: Option<Tensor<4>>, like: &Tensor<4>| {
            let [batch, heads, _, size] = like.dims();
            let options = (&like.device(), like.dtype());
            let mut grown = Tensor::zeros([batch, heads, new_space, size], options);
            if let Some(stored) = stored {
                let empty = vec![Example::default(); batch];
                write(&mut [(&mut grown, stored)], &empty, &kept, false);
            }
            grown
        };
        let stored = self.rows.take().map(|rows| (rows.keys, rows.values));
        let (stored_keys, stored_values) = stored.unzip();
        self.rows = Some(Rows {
            keys: grown(stored_keys, keys),
            values: grown(stored_values, values),
            owner: Some(owner),
            of_examples: None,
        });
    }
}
