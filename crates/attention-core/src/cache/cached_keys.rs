//! The keys and values of a cache, to take out and put back.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};

use super::KeyValueCache;
use super::rows::{Example, Rows, assert_without_autodiff};
use crate::functional::assert_a_value_for_each_key;

/// The keys and values that a cache holds: a prefix that a server reuses for many texts, or a state to save.
#[derive(Clone, Debug)]
pub struct CachedKeys {
    /// `[batch, key_heads, rows, size]`, as the scoring function projected them.
    pub keys: Tensor<4>,
    /// `[batch, key_heads, rows, value_size]`
    pub values: Tensor<4>,
    /// The tokens of each example that are kept, in its first rows; a window evicted the earlier ones.
    pub tokens: Vec<Range<usize>>,
}

impl KeyValueCache {
    /// The keys and values so far; `None` before the first call. One row per token of the longest example.
    pub fn keys(&self) -> Option<CachedKeys> {
        let mut rows = self.rows.clone()?;
        rows.part();
        let longest = self.longest();
        let [keys, values] = [rows.keys, rows.values].map(|all| {
            let [batch, heads, _, size] = all.dims();
            all.slice([0..batch, 0..heads, 0..longest, 0..size])
        });
        let tokens = self.examples.iter();
        let tokens = tokens.map(|of| of.evicted..of.evicted + of.kept).collect();
        Some(CachedKeys {
            keys,
            values,
            tokens,
        })
    }

    /// This cache, filled with these keys and values; any scoring function may continue it.
    ///
    /// ```
    /// use attention_core::{CachedKeys, KeyValueCache};
    /// use burn::tensor::{Device, Tensor};
    ///
    /// let keys = Tensor::<4>::ones([2, 1, 5, 8], &Device::flex());
    /// let prefix = CachedKeys { values: keys.clone(), keys, tokens: vec![0..5, 0..3] };
    /// let cache = KeyValueCache::new().with_keys(prefix);
    /// assert_eq!(cache.lengths(), [5, 3]);
    /// ```
    ///
    /// # Panics
    /// If the cache is not empty, shapes, types or devices do not fit together, the device is one of autodiff, the
    /// capacity is exceeded, or tokens inside the window are missing before the given ones.
    pub fn with_keys(mut self, given: CachedKeys) -> Self {
        const NAME: &str = "KeyValueCache::with_keys";
        let (keys, values, tokens) = (given.keys, given.values, given.tokens);
        let lengths = self.lengths();
        assert!(
            self.rows.is_none(),
            "{NAME}: an empty cache expected, got one of lengths {lengths:?}"
        );
        let [batch, _, num_rows, _] = keys.dims();
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let others = [Argument::floats("values", &values)];
        assert_together(NAME, Argument::floats("keys", &keys), others);
        assert_without_autodiff(&keys.device());
        assert!(
            tokens.len() == batch,
            "{NAME}: tokens of {batch} examples expected, got {}",
            tokens.len()
        );
        let most = self.capacity.map_or(num_rows, |most| most.min(num_rows));
        for (b, of) in tokens.iter().enumerate() {
            assert!(
                of.start <= of.end && of.len() <= most,
                "{NAME}: at most {most} tokens expected in example {b}, as rows and capacity are, got {of:?}"
            );
            let reach = self.window.map_or(usize::MAX, |window| window - 1);
            assert!(
                of.start == 0 || of.len() >= reach,
                "{NAME}: the tokens of example {b} expected from 0, or all in the window, got {of:?}"
            );
        }
        let of_tokens = |of: Range<usize>| Example {
            evicted: of.start,
            kept: of.len(),
        };
        self.examples = tokens.into_iter().map(of_tokens).collect();
        self.rows = Some(Rows {
            keys,
            values,
            owner: None,
            of_examples: None,
        });
        self
    }
}
