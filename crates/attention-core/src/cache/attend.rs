//! Attention to the keys of a cache.

use burn::tensor::{Tensor, assert_shape};

use super::{Cached, KeyValueCache, NewRows};
use crate::attention::Attention;
use crate::call::Call;
use crate::functional::AttentionOptions;
use crate::memory::Memory;
use crate::rank::{from_four_axes, to_four_axes};
use crate::score::{PositionTerm, ScoreKernel, ScoringFunction};

impl<S: ScoringFunction> Attention<S> {
    /// The context of the last queries of texts whose keys and values so far are in `cache`. The keys and values of
    /// this call are appended to it, in each example its own number of them; see [`KeyValueCache`].
    ///
    /// # Shapes
    /// - queries `[batch, rows, query_size]`, keys `[batch, rows, key_size]`, values `[batch, rows, value_size]`, or
    ///   all with heads; keys and values may have fewer heads than queries
    /// - result `[batch, rows, value_size]`, 0 in rows that are padding
    ///
    /// # Panics
    /// If shapes, types or devices do not fit together or the cache, there are other numbers of examples than before,
    /// the cache was filled by another scoring function, its capacity is exceeded, or the device is one of autodiff.
    pub fn forward_cached<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        rows: NewRows,
        cache: &mut KeyValueCache,
    ) -> Tensor<D> {
        self.forward_cached_with(
            queries,
            keys,
            values,
            rows,
            cache,
            AttentionOptions::default(),
        )
    }

    /// [`forward_cached`](Self::forward_cached) with options of this call. Their keys axis has the keys of the longest
    /// example of the cache after the call; a query attends to a key where the mask of the options says so, too.
    ///
    /// # Panics
    /// As [`forward_cached`](Self::forward_cached), or if an option does not fit. A mask, a relative bias and a bias of
    /// more than one key do not fit a cache with a window, whose keys move; nor do a relative bias and a mask that
    /// depends on positions fit examples of different lengths.
    pub fn forward_cached_with<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<D> {
        let options = options.into();
        check_options(&options, cache);
        let [queries, keys, values] = [queries, keys, values].map(to_four_axes);
        let [batch, _, num_queries, _] = queries.dims();
        let cached = self.append([batch, num_queries], keys, values, rows, cache);
        from_four_axes(self.attend_cached(queries, cached, &options))
    }

    /// Projects keys and appends them to a cache. Queries and keys have the same examples and rows.
    pub(crate) fn append(
        &self,
        queries: [usize; 2],
        keys: Tensor<4>,
        values: Tensor<4>,
        rows: NewRows,
        cache: &mut KeyValueCache,
    ) -> Cached {
        let [batch, key_heads, num_rows, _] = keys.dims();
        assert!(
            queries == [batch, num_rows],
            "attention: keys of the cached queries expected, [batch, rows] = {queries:?}, got {:?}",
            [batch, num_rows]
        );
        assert_shape!(values, [batch, key_heads, num_rows, _]);
        let tokens = rows.ranges([batch, num_rows]);
        let positions = cache.positions(&tokens, num_rows, &keys.device());
        let keys = self.project_keys(keys, &values, &positions);
        cache.append::<S>(keys, values, &tokens, positions)
    }

    /// The context of queries that stand among the keys of a cache.
    pub(crate) fn attend_cached(
        &self,
        queries: Tensor<4>,
        cached: Cached,
        options: &AttentionOptions,
    ) -> Tensor<4> {
        let Cached {
            memory,
            positions,
            ragged,
        } = cached;
        let call = Call::with(options).at(&positions);
        let [_, heads, num_queries, _] = queries.dims();
        let memory = if options.mask.is_none() {
            memory
        } else {
            let masked = memory.masked_for_queries(&options.mask, [heads, num_queries]);
            masked.into_owned()
        };
        let Some(ragged) = ragged else {
            return self.attend_heads(queries, &memory, call);
        };
        check_uneven(options);
        if !self.scores_positions(&queries, &memory) {
            let starts = ragged.iter();
            let starts = starts.map(|(tokens, num_keys)| *num_keys as i64 - tokens.end as i64);
            let starts: Vec<i64> = starts.collect();
            let starts = Some(&starts[..]);
            return self.attend_heads(queries, &memory, Call { starts, ..call });
        }
        // Such a score counts from the last key: each example by itself.
        check_of_each_example(options);
        let [_, key_heads, _, value_size] = memory.values.dims();
        let contexts = ragged
            .into_iter()
            .enumerate()
            .map(|(b, (tokens, num_keys))| {
                let options = (&queries.device(), queries.dtype());
                let context = Tensor::zeros([1, heads, num_queries, value_size], options);
                if tokens.is_empty() {
                    return context;
                }
                let of_example = |rows: &Tensor<4>| {
                    let [_, _, _, size] = rows.dims();
                    rows.clone()
                        .slice([b..b + 1, 0..key_heads, 0..num_keys, 0..size])
                };
                let own = queries.clone().narrow(0, b, 1);
                let own = own.narrow(2, tokens.start, tokens.len());
                let mask = memory.mask.of_example(b, tokens.clone());
                let keys =
                    Memory::of_cleared(of_example(&memory.keys), of_example(&memory.values), mask);
                let positions = positions.of_example(b, tokens.clone());
                let call = call.at(&positions);
                let rows = [0..1, 0..heads, tokens, 0..value_size];
                context.slice_assign(rows, self.attend_heads(own, &keys, call))
            });
        Tensor::cat(contexts.collect(), 0)
    }

    /// Whether the terms of positions are added by [`score`](ScoringFunction::score) itself.
    fn scores_positions(&self, queries: &Tensor<4>, memory: &Memory) -> bool {
        let [_, _, num_queries, _] = queries.dims();
        match self.position_term(queries, [num_queries, memory.num_keys()]) {
            PositionTerm::None => false,
            PositionTerm::PerPair => true,
            _ => matches!(self.score.kernel(), ScoreKernel::Custom),
        }
    }
}

/// # Panics
/// If an option names keys, which a window of the cache moves.
pub(crate) fn check_options(options: &AttentionOptions, cache: &KeyValueCache) {
    let of_keys = |bias: &Tensor<4>| bias.dims()[3] > 1;
    let names_keys = !options.mask.is_none()
        || options.relative_bias.is_some()
        || options.bias.as_ref().is_some_and(of_keys);
    assert!(
        !names_keys || cache.window.is_none(),
        "forward_cached_with: no mask, relative bias or bias of more than one key expected with a cache that has a \
         window, whose keys move"
    );
}

/// # Panics
/// If an option counts from the last key, of examples whose last keys differ.
fn check_uneven(options: &AttentionOptions) {
    assert!(
        options.relative_bias.is_none() && !options.mask.depends_on_positions(),
        "forward_cached_with: neither a relative bias nor a mask of positions expected with examples of different \
         lengths; a `PositionBias` and `KeyValueCache::with_window` count in each example"
    );
}

/// # Panics
/// If an option has something of each example, for a score that takes the examples by themselves.
fn check_of_each_example(options: &AttentionOptions) {
    assert!(
        options.mask.is_none() && options.bias.is_none() && options.extra_keys.is_none(),
        "forward_cached_with: no mask, bias or extra keys expected with examples of different lengths and a score \
         that adds terms of positions itself"
    );
}
