//! Keys and values that a cache takes.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};

use super::rows::{Example, Rows, assert_without_autodiff, write};
use super::{Cached, KeyValueCache, NewRows};
use crate::functional::{KeysAndValues, assert_a_value_for_each_key};
use crate::mask::Mask;
use crate::owner::Owner;
use crate::position::Positions;

impl KeyValueCache {
    /// Appends keys, as the score compares them, and values without attending: for queries that are not the last ones,
    /// that attend to later keys, too, or that need a float mask. Such queries attend to [`keys`](Self::keys).
    ///
    /// ```
    /// use attention_core::functional::dot_product_attention;
    /// use attention_core::{CachedKeys, KeyValueCache, Mask, NewRows};
    /// use burn::tensor::{Device, Tensor};
    ///
    /// let rows = |number| Tensor::<4>::ones([2, 1, number, 8], &Device::flex());
    /// let mut cache = KeyValueCache::new();
    /// cache.append(rows(5), rows(5), NewRows::All);
    /// cache.append(rows(2), rows(2), NewRows::All);
    /// let CachedKeys { keys, values, .. } = cache.keys().unwrap();
    /// let context = dot_product_attention(rows(3), keys, values, Mask::none());
    /// assert_eq!(context.dims(), [2, 1, 3, 8]);
    /// ```
    ///
    /// # Shapes
    /// - keys `[batch, key_heads, rows, size]`, values `[batch, key_heads, rows, value_size]`
    ///
    /// # Panics
    /// If shapes, types or devices do not fit together or do not fit the cached keys, the number of examples changes,
    /// the capacity is exceeded, or the device is one of autodiff.
    pub fn append(&mut self, keys: Tensor<4>, values: Tensor<4>, rows: NewRows) {
        const NAME: &str = "KeyValueCache::append";
        let [batch, _, num_rows, _] = keys.dims();
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let others = [Argument::floats("values", &values)];
        assert_together(NAME, Argument::floats("keys", &keys), others);
        self.assert_examples(batch);
        self.store(None, keys, values, &rows.ranges([batch, num_rows]));
    }

    /// Stores projected keys and values; returns the tokens that were there before, and whether all examples are alike.
    fn store(
        &mut self,
        owner: Option<Owner>,
        keys: Tensor<4>,
        values: Tensor<4>,
        tokens: &[Range<usize>],
    ) -> (Vec<Example>, bool) {
        let [_, _, num_rows, _] = keys.dims();
        if self.examples.is_empty() {
            self.examples = vec![Example::default(); tokens.len()];
        }
        self.reserve(owner, &keys, &values, tokens);
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
        (before, is_even)
    }

    /// Appends projected keys `[batch, key_heads, rows, size]` and values; returns the keys that queries of the same
    /// rows attend to.
    ///
    /// # Panics
    /// As [`append`](Self::append), or if the cached keys were projected for another score.
    pub(crate) fn append_for_queries<S: 'static>(
        &mut self,
        keys: Tensor<4>,
        values: Tensor<4>,
        tokens: &[Range<usize>],
        positions: Positions,
    ) -> Cached {
        let [_, _, num_rows, _] = keys.dims();
        let (before, is_even) = self.store(Some(Owner::of::<S>()), keys, values, tokens);
        let longest = self.longest();
        // A lone query reads nothing beyond its window.
        let window = self.window.unwrap_or(usize::MAX);
        let is_lone = is_even && num_rows == 1;
        let before_window = longest.saturating_sub(window);
        let first = if is_lone { before_window } else { 0 };
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
            rows: KeysAndValues::new(view(&rows.keys).into(), view(&rows.values).into(), mask),
            positions,
            ragged,
        }
    }

    /// Makes space for the new tokens.
    fn reserve(
        &mut self,
        owner: Option<Owner>,
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
        let known = self.rows.as_ref().and_then(|rows| rows.owner);
        if let (Some(expected), Some(owner)) = (known, owner) {
            assert!(
                expected == owner,
                "{NAME}: keys of {} expected, as before, got those of {}",
                expected.name,
                owner.name
            );
        }
        let owner = known.or(owner);
        if let Some(rows) = &self.rows {
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
            let lengths = all.map(|(of, tokens)| of.kept + tokens.len());
            lengths.max().unwrap_or(0)
        };
        let space = self.rows.as_ref().map_or(0, |rows| rows.keys.dims()[2]);
        if let Some(rows) = &mut self.rows
            && needed(&self.examples) <= space
        {
            rows.owner = owner;
            return;
        }
        // The first of the new queries needs only the keys of its window.
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
            // Twice the window, so that each key is moved only once.
            (None, Some(window)) => needed.max(space.min(window).saturating_mul(2)),
            (None, None) => needed.max(2 * space),
        };
        let before = std::mem::replace(&mut self.examples, after);
        let kept = self.examples.iter().zip(&before);
        let kept = kept.map(|(of, before)| before.kept - of.kept..before.kept);
        let kept: Vec<_> = kept.collect();
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
            owner,
            of_examples: None,
        });
    }
}
