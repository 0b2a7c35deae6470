//! Attention to the keys of a cache.

use burn::tensor::{Bool, Tensor, TensorData};

use super::{Attention, AttentionOutput, Call};
use crate::cache::{Cached, KeyValueCache, NewRows};
use crate::functional::{AttentionOptions, KeysAndValues, assert_a_value_for_each_key};
use crate::rank::{Sequences, from_four_axes};
use crate::score::{PositionTerm, ScoreKernel, ScoringFunction};

impl<S: ScoringFunction> Attention<S> {
    /// The context of the last queries of texts whose earlier keys and values are in `cache`. The keys and values of
    /// this call are appended to it: each example may add a different number; see [`KeyValueCache`].
    ///
    /// The keys axis of the options covers the keys of the cache's longest example after the call. The mask of the
    /// options further restricts the keys that a query attends to.
    ///
    /// # Shapes
    /// - queries `[batch, rows, query_size]`, keys `[batch, rows, key_size]`, values `[batch, rows, value_size]`, or
    ///   all with heads; keys and values may have fewer heads than queries
    /// - result `[batch, rows, value_size]`, 0 in rows that are padding
    ///
    /// # Panics
    /// If shapes, types, devices or an option do not fit together or do not fit the cache, the number of examples
    /// changes, the cache was filled by another scoring function, its capacity is exceeded, or the device is one of
    /// autodiff. Masks, relative biases and biases of several keys do not fit a cache with a window, whose keys move;
    /// relative biases and masks that count positions (causal, a window, segments) do not fit examples of different
    /// lengths. Intervals and mask functions name rows, and do fit.
    pub fn forward_cached<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<D> {
        let options = options.into();
        let (queries, cached) = self.cached([queries, keys, values], rows, cache, &options);
        let attend = |queries, rows: &_, call: Call| [self.attend_heads(queries, rows, call)];
        let [context] = self.attend_cached(queries, cached, &options, attend);
        context.into_tensor()
    }

    /// [`forward_cached`](Self::forward_cached), and its weights: for the rows of [`KeyValueCache::keys`], then for
    /// extra keys; 0 in rows that are padding.
    ///
    /// # Panics
    /// As [`forward_cached`](Self::forward_cached).
    pub fn forward_cached_with_weights<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: impl Into<AttentionOptions>,
    ) -> AttentionOutput<D> {
        let options = options.into();
        let (queries, cached) = self.cached([queries, keys, values], rows, cache, &options);
        self.attend_cached_with_weights(queries, cached, &options, cache)
            .map(from_four_axes)
    }

    /// The queries, and the cached keys that they attend to.
    fn cached<const D: usize>(
        &self,
        inputs: [Tensor<D>; 3],
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: &AttentionOptions,
    ) -> (Sequences, Cached) {
        let [queries, keys, values] = inputs.map(Sequences::new);
        let [batch, _, num_queries, _] = queries.dims();
        let cached = self.append([batch, num_queries], [keys, values], rows, cache, options);
        (queries, cached)
    }

    /// Projects keys and appends them to a cache. Queries and keys have the same examples and rows.
    pub(crate) fn append(
        &self,
        queries: [usize; 2],
        [keys, values]: [Sequences; 2],
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: &AttentionOptions,
    ) -> Cached {
        check_options(options, cache);
        let [batch, _, num_rows, _] = keys.dims();
        assert!(
            queries == [batch, num_rows],
            "attention: keys of the cached queries expected, [batch, rows] = {queries:?}, got {:?}",
            [batch, num_rows]
        );
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let tokens = rows.ranges([batch, num_rows]);
        let positions = cache.positions(&tokens, num_rows, &keys.device());
        let keys = self.project_keys(keys, &values, &positions);
        let [keys, values] = [keys, values].map(Sequences::into_tensor);
        cache.append_for_queries::<S>(keys, values, &tokens, positions)
    }

    /// The context and the weights of queries that stand among the keys of `cache`.
    pub(crate) fn attend_cached_with_weights(
        &self,
        queries: Sequences,
        cached: Cached,
        options: &AttentionOptions,
        cache: &KeyValueCache,
    ) -> AttentionOutput<4> {
        // A lone query does not read the keys before its window.
        let unread = cache.longest() - cached.rows.num_keys();
        let attend = |queries, rows: &_, call: Call| {
            let output = self.attend_heads_with_weights(queries, rows, call);
            [output.context, output.weights].map(Sequences::new)
        };
        let outputs = self.attend_cached(queries, cached, options, attend);
        let [context, mut weights] = outputs.map(Sequences::into_tensor);
        if unread > 0 {
            let [batch, heads, rows, _] = weights.dims();
            let options = (&weights.device(), weights.dtype());
            let before = Tensor::zeros([batch, heads, rows, unread], options);
            weights = Tensor::cat(vec![before, weights], 3);
        }
        AttentionOutput { context, weights }
    }

    /// The tensors that `attend` makes (the context, perhaps the weights) for queries that stand among the keys of a
    /// cache.
    pub(crate) fn attend_cached<const N: usize>(
        &self,
        queries: Sequences,
        cached: Cached,
        options: &AttentionOptions,
        attend: impl Fn(Sequences, &KeysAndValues, Call) -> [Sequences; N],
    ) -> [Sequences; N] {
        let positions = cached.positions;
        let call = Call::with(options).at(&positions);
        let [_, heads, num_queries, _] = queries.dims();
        let rows = (cached.rows).for_queries(&options.mask, [heads, num_queries]);
        let Some(ragged) = cached.ragged else {
            return attend(queries, &rows, call);
        };
        check_uneven(options);
        if !self.scores_positions(&queries, &rows) {
            let starts = ragged.iter();
            let starts = starts.map(|(tokens, num_keys)| *num_keys as i64 - tokens.end as i64);
            let starts = Some(&starts.collect::<Vec<_>>()[..]);
            let device = queries.device();
            let made = attend(queries, &rows, Call { starts, ..call });
            let has_padding = ragged.iter().any(|(tokens, _)| tokens.len() < num_queries);
            if !has_padding || !call.has_extra_keys() && self.extra_keys.is_none() {
                return made;
            }
            // Padding attends to no other keys.
            let is_padding = ragged
                .iter()
                .flat_map(|(tokens, _)| (0..num_queries).map(|row| !tokens.contains(&row)));
            let shape = [ragged.len(), 1, num_queries, 1];
            let is_padding = TensorData::new(is_padding.collect::<Vec<bool>>(), shape);
            let is_padding = Tensor::<4, Bool>::from_data(is_padding, &device);
            return made.map(|all| {
                let padding = is_padding.clone().expand(all.dims());
                all.into_tensor::<4>().mask_fill(padding, 0.0).into()
            });
        }
        // Such a score counts positions from the last key, so each example is computed by itself.
        let has_extra_keys = call.has_extra_keys() || N > 1 && self.extra_keys.is_some();
        check_of_each_example(options, has_extra_keys);
        let [_, key_heads, _, value_size] = rows.values.dims();
        let sizes = [value_size, rows.num_keys()];
        let of_examples = ragged.into_iter().enumerate();
        let of_examples = of_examples.map(|(b, (tokens, num_keys))| {
            let options = (&queries.device(), queries.dtype());
            let zeros = |n: usize| Tensor::zeros([1, heads, num_queries, sizes[n]], options);
            if tokens.is_empty() {
                return std::array::from_fn(zeros);
            }
            let of_example = |all: &Sequences| {
                let [_, _, _, size] = all.dims();
                let example = [b..b + 1, 0..key_heads, 0..num_keys, 0..size];
                all.to_tensor().slice(example).into()
            };
            let own = queries.to_tensor().narrow(0, b, 1);
            let own = own.narrow(2, tokens.start, tokens.len()).into();
            let mask = rows.mask.of_example(b, tokens.clone());
            let rows = KeysAndValues::new(of_example(&rows.keys), of_example(&rows.values), mask);
            let positions = positions.of_example(b, tokens.clone());
            let made = attend(own, &rows, call.at(&positions));
            std::array::from_fn(|n| {
                let [_, _, _, size] = made[n].dims();
                let place = [0..1, 0..heads, tokens.clone(), 0..size];
                zeros(n).slice_assign(place, made[n].to_tensor())
            })
        });
        let of_examples: Vec<[Tensor<4>; N]> = of_examples.collect();
        std::array::from_fn(|n| {
            Tensor::cat(of_examples.iter().map(|of| of[n].clone()).collect(), 0).into()
        })
    }

    /// Whether [`score`](ScoringFunction::score) itself adds the terms of positions.
    fn scores_positions(&self, queries: &Sequences, rows: &KeysAndValues) -> bool {
        let [_, _, num_queries, _] = queries.dims();
        match self.position_term(queries, [num_queries, rows.num_keys()]) {
            PositionTerm::None => false,
            PositionTerm::PerPair => true,
            _ => matches!(self.score.kernel(), ScoreKernel::Custom),
        }
    }
}

/// # Panics
/// If an option refers to keys by their place, which a window of the cache changes.
fn check_options(options: &AttentionOptions, cache: &KeyValueCache) {
    let of_keys = |bias: &Tensor<4>| bias.dims()[3] > 1;
    let names_keys = !options.mask.is_none()
        || options.relative_bias.is_some()
        || options.score_mod.is_some()
        || options.bias.as_ref().is_some_and(of_keys);
    assert!(
        !names_keys || cache.window.is_none(),
        "forward_cached: no mask, relative bias, bias of more than one key or score_mod expected with a cache that \
         has a window, whose keys move"
    );
}

/// # Panics
/// If an option counts positions from the last key while the last keys of the examples differ.
fn check_uneven(options: &AttentionOptions) {
    assert!(
        options.relative_bias.is_none() && !options.mask.depends_on_positions(),
        "forward_cached: neither a relative bias nor a mask of positions expected with examples of different \
         lengths; a `PositionBias` and `KeyValueCache::with_window` count in each example"
    );
}

/// # Panics
/// If an option differs by example, for a score that is computed one example at a time.
fn check_of_each_example(options: &AttentionOptions, has_extra_keys: bool) {
    let names_places = !options.mask.is_none() || options.score_mod.is_some();
    assert!(
        !names_places && options.bias.is_none() && !has_extra_keys,
        "forward_cached: no mask, bias, score_mod or extra keys expected with examples of different lengths and a \
         score that adds terms of positions itself"
    );
}
