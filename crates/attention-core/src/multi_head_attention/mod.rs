//! Multi-head attention around any scoring function.

mod config;

pub use config::MultiHeadAttentionConfig;

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_fused_layers::PackedLinear;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::harness::wide::in_wide;
use burn_fused_layers::linear_of;

use crate::attention::{Attention, AttentionOutput, Call};
use crate::cache::{Cached, KeyValueCache, NewRows};
use crate::functional::{
    AttentionOptions, KeysAndValues, assert_a_value_for_each_key, assert_equal_batches,
    clear_padding, fill_keyless,
};
use crate::mask::Mask;
use crate::memory::Memory;
use crate::rank::{Sequences, in_one_batch, reshape_floats};
use crate::score::ScoringFunction;

/// Multi-head attention around any scoring function:
/// `W_o [head_1; ..; head_n]`, where `head_h = attention(W_q q, W_k k, W_v v)` on the `h`-th part of each projection.
///
/// With fewer heads of keys and values than of queries, neighbouring query heads share them (grouped-query attention;
/// with a single one, multi-query attention). The kernels read shared keys and values in place, without repeating them.
///
/// A query that attends to no key has a context of 0 in each head; its result is the bias of the output projection.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; groups: Ainslie et al. 2023, "GQA: Training
/// Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", section 2.2.
///
/// D2L's `MultiHeadAttention`. Its record is that of Burn's `MultiHeadAttention`, with
/// [`bias`](crate::MultiHeadAttentionConfig::bias). PyTorch equivalent:
/// `torch.nn.MultiheadAttention(batch_first=True)`. The crate `attention-import` loads the parameters of D2L's module
/// and of PyTorch's.
///
/// Keras equivalent: `MultiHeadAttention(num_heads, key_dim, value_dim, output_shape=output_size)`, with `num_hiddens =
/// num_heads * key_dim` and `value_head_size = value_dim`; its `output_shape` is `query_size` by default.
///
/// ```
/// use attention_core::{Mask, MultiHeadAttentionConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = MultiHeadAttentionConfig::new(16, 4).with_num_key_value_heads(Some(2)).init(&device);
/// let rows = Tensor::<3>::ones([1, 5, 16], &device);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
/// assert_eq!(context.dims(), [1, 5, 16]);
/// ```
#[doc(alias = "GroupedQueryAttention")]
#[doc(alias = "GQA")]
#[doc(alias = "MultiQueryAttention")]
#[doc(alias = "MQA")]
#[derive(Module, Debug)]
pub struct MultiHeadAttention<S: ScoringFunction> {
    /// W_q, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// W_k, `[key_size, head_size * num_key_value_heads]`.
    pub key: Linear,
    /// W_v, `[value_size, value_head_size * num_key_value_heads]`.
    pub value: Linear,
    /// W_o, `[value_head_size * num_heads, output_size]`.
    pub output: Option<Linear>,
    /// The attention of each head.
    pub attention: Attention<S>,
    pub(crate) num_heads: usize,
    pub(crate) num_key_value_heads: usize,
    /// The packed projections of queries, keys, values and contexts, after [`pack`](Self::pack).
    #[module(skip)]
    pub(crate) packed: Vec<PackedLinear>,
}

/// The result of [`MultiHeadAttention::forward_with_weights`].
#[derive(Clone, Debug)]
pub struct MultiHeadAttentionOutput {
    /// `[batch, queries, output_size]`; without an output projection `[batch, queries, value_head_size * num_heads]`.
    pub context: Tensor<3>,
    /// The attention weights before dropout, `[batch, heads, queries, keys]`.
    pub weights: Tensor<4>,
}

impl MultiHeadAttentionOutput {
    /// The mean of the weights over the heads, `[batch, queries, keys]`: PyTorch's `average_attn_weights`.
    pub fn mean_weights(&self) -> Tensor<3> {
        in_wide(self.weights.clone(), |weights| {
            weights.mean_dim(1).squeeze_dim(1)
        })
    }
}

impl<S: ScoringFunction> MultiHeadAttention<S> {
    /// The number of heads of queries.
    pub fn num_heads(&self) -> usize {
        self.num_heads
    }

    /// Replaces the score of the heads by one made from it.
    pub fn map_score<T: ScoringFunction>(
        self,
        score: impl FnOnce(S) -> T,
    ) -> MultiHeadAttention<T> {
        MultiHeadAttention {
            query: self.query,
            key: self.key,
            value: self.value,
            output: self.output,
            attention: self.attention.map_score(score),
            num_heads: self.num_heads,
            num_key_value_heads: self.num_key_value_heads,
            packed: self.packed,
        }
    }

    /// Packs the weights of the projections once for all later calls: for inference with few rows at a time, where
    /// packing a weight takes about as long as multiplying by it. In `f32` and `f64` results are the same to the bit.
    ///
    /// Later calls read the weights as they are now, even if parameters are loaded, trained or moved: pack last, or
    /// [`unpack`](Self::unpack) before a change.
    pub fn pack(&mut self) {
        let layers = [&self.query, &self.key, &self.value];
        let layers = layers.into_iter().chain(&self.output);
        self.packed = layers.map(PackedLinear::from).collect();
    }

    /// Undoes [`pack`](Self::pack): calls read the parameters again.
    pub fn unpack(&mut self) {
        self.packed.clear();
    }

    /// The context of each query, with a mask, or with [`AttentionOptions`], whose tensors are per head: a heads axis
    /// is `num_heads` or 1, and extra keys are already projected.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`; a
    ///   batch of 1 serves all examples
    /// - result `[batch, queries, output_size]`
    ///
    /// # Panics
    /// If the shapes or the mask do not fit together.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<3> {
        let [queries, keys, values] = in_one_batch(queries, keys, values);
        let ([_, _, num_queries, _], options) = (queries.dims(), options.into());
        let rows = self.rows(keys, values, &options.mask, num_queries);
        self.context_of(queries, &rows, Call::with(&options))
    }

    /// [`forward`](Self::forward), and the weights of each head.
    pub fn forward_with_weights(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        options: impl Into<AttentionOptions>,
    ) -> MultiHeadAttentionOutput {
        let [queries, keys, values] = in_one_batch(queries, keys, values);
        let ([_, _, num_queries, _], options) = (queries.dims(), options.into());
        let rows = self.rows(keys, values, &options.mask, num_queries);
        self.output_of(queries, &rows, Call::with(&options))
    }

    /// Projects keys and values once, for many calls of [`attend`](Self::attend).
    ///
    /// # Shapes
    /// - keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`
    ///
    /// # Panics
    /// If keys and values differ in batch or number.
    pub fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: impl Into<Mask>) -> Memory {
        let mask = mask.into();
        let (known, num_queries) = mask.without_positions();
        let (keys, values) = (Sequences::new(keys), Sequences::new(values));
        let mut rows = self.rows(keys, values, &known, num_queries);
        rows.shared = Some(Box::new(rows.share()));
        let known = [self.num_heads, num_queries];
        self.attention.prepared(rows, mask, known)
    }

    /// The context of the last queries of texts. `cache` holds the keys and values so far; this call appends its own:
    /// each example may add a different number. Tensors of the options are per head. See [`KeyValueCache`].
    ///
    /// # Shapes
    /// - queries `[batch, rows, query_size]`, keys `[batch, rows, key_size]`, values `[batch, rows, value_size]`
    /// - result `[batch, rows, output_size]`; a row of padding has the result of a query that attends to no key
    ///
    /// # Panics
    /// As [`Attention::forward_cached`].
    pub fn forward_cached(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<3> {
        let options = options.into();
        let (queries, cached) = self.cached([queries, keys, values], rows, cache, &options);
        let attend =
            |queries, rows: &_, call: Call| [self.attention.attend_heads(queries, rows, call)];
        let [context] = (self.attention).attend_cached(queries, cached, &options, attend);
        self.join(context)
    }

    /// [`forward_cached`](Self::forward_cached), and the weights of each head; as
    /// [`Attention::forward_cached_with_weights`].
    ///
    /// # Panics
    /// As [`Attention::forward_cached`].
    pub fn forward_cached_with_weights(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: impl Into<AttentionOptions>,
    ) -> MultiHeadAttentionOutput {
        let options = options.into();
        let (queries, cached) = self.cached([queries, keys, values], rows, cache, &options);
        let attention = &self.attention;
        self.joined(attention.attend_cached_with_weights(queries, cached, &options, cache))
    }

    /// The queries of each head, and the cached keys that they attend to.
    fn cached(
        &self,
        [queries, keys, values]: [Tensor<3>; 3],
        rows: NewRows,
        cache: &mut KeyValueCache,
        options: &AttentionOptions,
    ) -> (Sequences, Cached) {
        let keys = [(1, keys), (2, values)].map(|(n, rows)| {
            let projected = self.project(n, rows);
            in_heads(projected, self.num_key_value_heads).into()
        });
        let [batch, num_queries, _] = queries.dims();
        let sizes = [batch, num_queries];
        let cached = (self.attention).append(sizes, keys, rows, cache, options);
        let queries = Sequences::new(queries);
        let queries = self.project_queries(queries, &cached.rows, Call::with(options));
        (queries, cached)
    }

    /// The context of each query, from prepared keys and values, with a mask or options of this call, whose tensors are
    /// per head. A query attends to a key where the mask of the options and the mask of the memory both say so.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, result `[batch, queries, output_size]`
    ///
    /// # Panics
    /// If the queries, a mask or an option do not fit the memory, or it was prepared for a score of another type.
    pub fn attend(
        &self,
        queries: Tensor<3>,
        memory: &Memory,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<3> {
        let (queries, options) = (Sequences::new(queries), options.into());
        let sizes = [self.num_heads, queries.dims()[2]];
        let rows = memory.for_queries::<S>(&options.mask, sizes);
        self.context_of(queries, &rows, Call::with(&options))
    }

    /// [`attend`](Self::attend), and the weights of each head.
    ///
    /// # Panics
    /// As [`attend`](Self::attend).
    pub fn attend_with_weights(
        &self,
        queries: Tensor<3>,
        memory: &Memory,
        options: impl Into<AttentionOptions>,
    ) -> MultiHeadAttentionOutput {
        let (queries, options) = (Sequences::new(queries), options.into());
        let sizes = [self.num_heads, queries.dims()[2]];
        let rows = memory.for_queries::<S>(&options.mask, sizes);
        self.output_of(queries, &rows, Call::with(&options))
    }

    fn context_of(&self, queries: Sequences, rows: &KeysAndValues, call: Call) -> Tensor<3> {
        let queries = self.project_queries(queries, rows, call);
        self.join(self.attention.attend_heads(queries, rows, call))
    }

    fn output_of(
        &self,
        queries: Sequences,
        rows: &KeysAndValues,
        call: Call,
    ) -> MultiHeadAttentionOutput {
        let queries = self.project_queries(queries, rows, call);
        let attention = &self.attention;
        self.joined(attention.attend_heads_with_weights(queries, rows, call))
    }

    fn joined(&self, output: AttentionOutput<4>) -> MultiHeadAttentionOutput {
        MultiHeadAttentionOutput {
            context: self.join(output.context.into()),
            weights: output.weights,
        }
    }

    /// The queries of each head. Queries that attend to no key are cleared first, as padding is.
    fn project_queries(
        &self,
        mut queries: Sequences,
        rows: &KeysAndValues,
        call: Call,
    ) -> Sequences {
        assert_equal_batches(queries.dims()[0], rows.values.dims()[0]);
        if !call.has_extra_keys() && self.attention.extra_keys.is_none() {
            let sizes = [self.num_heads, rows.num_keys()];
            queries = fill_keyless(queries, &rows.mask, sizes);
        }
        in_heads(self.project(0, queries.into_tensor()), self.num_heads).into()
    }

    /// Keys and values, split into heads. Padding is cleared before it is projected: the gradient of a projection
    /// multiplies by its input, and padding may hold anything.
    fn rows(
        &self,
        keys: Sequences,
        values: Sequences,
        mask: &Mask,
        num_queries: usize,
    ) -> KeysAndValues {
        let [batch, _, num_keys, _] = keys.dims();
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let scores = [batch, self.num_heads, num_queries, num_keys];
        let mask = mask.resolved_for(scores, &keys.device());
        let [keys, values] = [(1, keys), (2, values)].map(|(n, rows)| {
            let rows = clear_padding(rows, &mask, [self.num_heads, num_queries]);
            let projected = self.project(n, rows.into_tensor());
            in_heads(projected, self.num_key_value_heads).into()
        });
        self.attention.projected(keys, values, mask)
    }

    /// The contexts of the heads, concatenated, through the output projection.
    fn join(&self, heads: Sequences) -> Tensor<3> {
        let [batch, num_heads, queries, size] = heads.dims();
        let heads = heads.into_tensor::<4>().swap_dims(1, 2);
        let joined = [batch, queries, num_heads * size];
        self.project(3, reshape_floats(heads.into_dispatch(), joined))
    }

    /// Queries, keys, values or contexts (`n` is 0 to 3), through their projection.
    fn project(&self, n: usize, rows: Tensor<3>) -> Tensor<3> {
        let (name, layer) = match n {
            0 => ("queries", &self.query),
            1 => ("keys", &self.key),
            2 => ("values", &self.value),
            _ => match &self.output {
                Some(output) => ("contexts", output),
                None => return rows,
            },
        };
        match self.packed.get(n) {
            Some(packed) => packed.forward(rows),
            None => linear_of(name, of_linear(layer), rows),
        }
    }
}

/// `[batch, rows, size]`, projected and split to `[batch, heads, rows, head_size]`.
pub(crate) fn split(name: &str, layer: &Linear, rows: Tensor<3>, heads: usize) -> Tensor<4> {
    in_heads(linear_of(name, of_linear(layer), rows), heads)
}

/// `[batch, rows, size]`, split to `[batch, heads, rows, size / heads]`.
fn in_heads(projected: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, num_rows, size] = projected.dims();
    assert!(
        size.is_multiple_of(heads),
        "attention: a projection's output expected to be a multiple of the {heads} heads, got {size}"
    );
    let heads = [batch, num_rows, heads, size / heads];
    reshape_floats(projected.into_dispatch(), heads).swap_dims(1, 2)
}
