//! Attention pooling: score, masked softmax, dropout, weighted sum.

mod cached;
mod call;
mod config;
mod extra_keys;
mod pooling;

pub use config::{AdditiveAttentionConfig, DotProductAttentionConfig};
pub use extra_keys::ExtraKeys;

pub(crate) use call::Call;

use burn::module::{Module, Param};
use burn::nn::{Dropout, DropoutConfig, Initializer};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::checks::assert_together;

use crate::functional::{
    AttentionOptions, KeysAndValues, PreparedKeys, SharedTensor, assert_a_value_for_each_key,
    clear_padding, pack_additive_keys,
};
use crate::mask::Mask;
use crate::memory::Memory;
use crate::normalizer::Normalizer;
use crate::position::Positions;
use crate::rank::{Sequences, from_four_axes, in_one_batch};
use crate::score::{AdditiveScore, DotProductScore, ScoreKernel, ScoringFunction};

/// Attention pooling with any scoring function: `context_i = sum_j softmax_j(score(query_i, key_j)) value_j` over the
/// keys that the mask keeps.
///
/// Queries, keys and values all have three axes, `[batch, queries or keys, size]`, or all four, with the heads after
/// the batch.
#[derive(Module, Debug)]
pub struct Attention<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// Dropout on the weights, active in training: when a query, key, value, bias or parameter is on a training device.
    pub dropout: Dropout,
    /// The function from scores to weights; by default softmax, see [`with_normalizer`](Self::with_normalizer).
    #[module(skip)]
    pub normalizer: Normalizer,
    /// The soft-cap of the scores in calls that set none; see [`AttentionOptions::soft_cap`].
    pub soft_cap: Option<f64>,
    /// Learned logits, `[heads]`, whose weights go to no value, if a call passes none; see [`AttentionOptions::sinks`].
    pub sinks: Option<Param<Tensor<1>>>,
    /// Learned keys and values that every query attends to, for calls that pass none.
    pub extra_keys: Option<ExtraKeys>,
    /// Whether every call has one more key, whose score and value are 0; see [`AttentionOptions::zero_key`].
    pub zero_key: bool,
}

/// Additive attention, `score = w_v . tanh(W_q q + W_k k)` (Bahdanau et al. 2015).
///
/// D2L's `AdditiveAttention`; the crate `attention-import` loads its PyTorch parameters.
#[doc(alias = "BahdanauAttention")]
pub type AdditiveAttention = Attention<AdditiveScore>;

/// Scaled dot-product attention, `score = q . k / sqrt(query_size)` (Vaswani et al. 2017).
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`.
#[doc(alias = "SDPA")]
#[doc(alias = "ScaledDotProductAttention")]
pub type DotProductAttention = Attention<DotProductScore>;

/// The result of [`Attention::forward_with_weights`].
#[derive(Clone, Debug)]
pub struct AttentionOutput<const D: usize> {
    /// `[batch, queries, value_size]` or `[batch, heads, queries, value_size]`.
    pub context: Tensor<D>,
    /// The attention weights before dropout. With softmax each row sums to 1, or to 0 where a query attends to no key:
    /// `[batch, queries, keys]` or `[batch, heads, queries, keys]`.
    pub weights: Tensor<D>,
}

impl<const D: usize> AttentionOutput<D> {
    pub(crate) fn map<const E: usize>(
        self,
        change: impl Fn(Tensor<D>) -> Tensor<E>,
    ) -> AttentionOutput<E> {
        AttentionOutput {
            context: change(self.context),
            weights: change(self.weights),
        }
    }
}

impl<S: ScoringFunction> Attention<S> {
    /// Attention with the scoring function `score` and dropout on its weights.
    ///
    /// # Panics
    /// If `dropout` is not in `[0, 1)`.
    pub fn new(score: S, dropout: f64) -> Self {
        Self {
            score,
            dropout: DropoutConfig::new(dropout).init(),
            normalizer: Normalizer::Softmax,
            soft_cap: None,
            sinks: None,
            extra_keys: None,
            zero_key: false,
        }
    }

    /// Replaces the score by one made from it.
    pub fn map_score<T: ScoringFunction>(self, score: impl FnOnce(S) -> T) -> Attention<T> {
        Attention {
            score: score(self.score),
            dropout: self.dropout,
            normalizer: self.normalizer,
            soft_cap: self.soft_cap,
            sinks: self.sinks,
            extra_keys: self.extra_keys,
            zero_key: self.zero_key,
        }
    }

    /// Replaces softmax by `normalizer`.
    pub fn with_normalizer(self, normalizer: Normalizer) -> Self {
        Self { normalizer, ..self }
    }

    /// Sets the soft-cap of the scores for every call that sets none, also with a cache.
    ///
    /// # Panics
    /// If it is no finite number above 0.
    pub fn with_soft_cap(mut self, soft_cap: f64) -> Self {
        assert!(
            soft_cap.is_finite() && soft_cap > 0.0,
            "attention: soft_cap expected a finite number above 0, got {soft_cap}"
        );
        self.soft_cap = Some(soft_cap);
        self
    }

    /// Adds to every call a key whose score and value are 0: weights are `exp(score) / (1 + sum exp(score))`, and a
    /// query may attend to nothing.
    ///
    /// Burn's `quiet_softmax`, PyTorch's `add_zero_attn`. Miller 2023, "Attention Is Off By One".
    pub fn with_zero_key(mut self) -> Self {
        self.zero_key = true;
        self
    }

    /// Adds learned keys and values to every call that passes none.
    pub fn with_extra_keys(mut self, extra_keys: ExtraKeys) -> Self {
        self.extra_keys = Some(extra_keys);
        self
    }

    /// Adds a learned sink to each of `heads` heads, with an initial logit of 0. Calls with another number of heads
    /// panic.
    ///
    /// # Panics
    /// If `heads` is 0.
    pub fn with_sinks(mut self, heads: usize, device: &Device) -> Self {
        assert!(
            heads > 0,
            "attention: sinks of at least one head expected, got none"
        );
        self.sinks = Some(Initializer::Zeros.init([heads], device));
        self
    }

    /// The context of each query, with a mask, or with [`AttentionOptions`]: a bias, a soft-cap, sinks, ..
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`, or
    ///   all with a heads axis after the batch; the heads of keys and values divide the heads of queries. A batch of 1
    ///   serves all examples
    /// - result `[batch, queries, value_size]`
    ///
    /// # Panics
    /// If the shapes, element types or an option do not fit together, a `scale` is given for a score that is no dot
    /// product, or sinks for a normalizer that is not softmax.
    pub fn forward<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<D> {
        let [queries, keys, values] = in_one_batch(queries, keys, values);
        let options = options.into();
        let [_, heads, num_queries, _] = queries.dims();
        let rows = self.rows([keys, values], &options.mask, [heads, num_queries]);
        let context = self.attend_heads(queries, &rows, Call::with(&options));
        context.into_tensor()
    }

    /// [`forward`](Self::forward), and its weights.
    pub fn forward_with_weights<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        options: impl Into<AttentionOptions>,
    ) -> AttentionOutput<D> {
        let [queries, keys, values] = in_one_batch(queries, keys, values);
        let options = options.into();
        let [_, heads, num_queries, _] = queries.dims();
        let rows = self.rows([keys, values], &options.mask, [heads, num_queries]);
        self.attend_heads_with_weights(queries, &rows, Call::with(&options))
            .map(from_four_axes)
    }

    /// Projects keys once, for many calls of [`attend`](Self::attend).
    ///
    /// In training, a projected tensor supports one backward pass, like any computed tensor. Leaves of the graph that
    /// are read without projection (values; keys of a score that does not [project](ScoringFunction::projects_keys)
    /// them) support any number.
    ///
    /// # Shapes
    /// - keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`, or with heads
    ///
    /// # Panics
    /// If keys and values differ in batch, heads, number or the type of their elements.
    pub fn prepare<const D: usize>(
        &self,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: impl Into<Mask>,
    ) -> Memory {
        let mask = mask.into();
        let (known, num_queries) = mask.without_positions();
        let both = [&keys, &values].map(|rows| Sequences::new(rows.clone()));
        let [_, key_heads, _, _] = both[0].dims();
        let heads = match known.heads_over(key_heads) {
            heads if heads.is_multiple_of(key_heads.max(1)) => heads,
            // A mask that does not fit panics later, with its own message.
            _ => key_heads,
        };
        let mut rows = self.rows(both, &known, [heads, num_queries]);
        let mut shared = rows.share();
        if keys.is_require_grad() && self.reads_as_given() {
            shared.keys = SharedTensor::new(keys.into_dispatch());
        }
        if values.is_require_grad() {
            shared.values = SharedTensor::new(values.into_dispatch());
        }
        rows.shared = Some(Box::new(shared));
        self.prepared(rows, mask, [heads, num_queries])
    }

    /// The context of each query, from prepared keys and values, with a mask or options of this call. A query attends
    /// to a key where the mask of the options and the mask of the memory both say so.
    ///
    /// A mask that depends on positions (causal, window) is aligned with the queries of this call.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, or with heads
    /// - result `[batch, queries, value_size]`
    ///
    /// # Panics
    /// If the queries, the type of their elements, a mask or an option do not fit the memory, or it was prepared for a
    /// score of another type.
    pub fn attend<const D: usize>(
        &self,
        queries: Tensor<D>,
        memory: &Memory,
        options: impl Into<AttentionOptions>,
    ) -> Tensor<D> {
        let (queries, options) = (Sequences::new(queries), options.into());
        let [_, heads, num_queries, _] = queries.dims();
        let rows = memory.for_queries::<S>(&options.mask, [heads, num_queries]);
        let context = self.attend_heads(queries, &rows, Call::with(&options));
        context.into_tensor()
    }

    /// [`attend`](Self::attend), and its weights.
    ///
    /// # Panics
    /// As [`attend`](Self::attend).
    pub fn attend_with_weights<const D: usize>(
        &self,
        queries: Tensor<D>,
        memory: &Memory,
        options: impl Into<AttentionOptions>,
    ) -> AttentionOutput<D> {
        let (queries, options) = (Sequences::new(queries), options.into());
        let [_, heads, num_queries, _] = queries.dims();
        let rows = memory.for_queries::<S>(&options.mask, [heads, num_queries]);
        self.attend_heads_with_weights(queries, &rows, Call::with(&options))
            .map(from_four_axes)
    }

    /// Projects keys after clearing their padding: the gradient of a projection multiplies by its input, and padding
    /// may hold anything.
    fn rows(
        &self,
        [keys, values]: [Sequences; 2],
        mask: &Mask,
        [heads, num_queries]: [usize; 2],
    ) -> KeysAndValues {
        let [batch, _, num_keys, _] = keys.dims();
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let scores = [batch, heads, num_queries, num_keys];
        let mask = mask.resolved_for(scores, &keys.device());
        let keys = clear_padding(keys, &mask, [heads, num_queries]);
        self.projected(keys, values, mask)
    }

    /// [`rows`](Self::rows) of keys whose padding is already cleared; they may have fewer heads than the queries.
    pub(crate) fn projected(
        &self,
        keys: Sequences,
        values: Sequences,
        mask: Mask,
    ) -> KeysAndValues {
        let keys = self.project_keys(keys, &values, &Positions::consecutive(0));
        KeysAndValues::new(keys, values, mask)
    }

    /// The projected keys; the keys themselves if the score does not project them.
    ///
    /// # Panics
    /// If keys and values differ in device or the type of their elements.
    pub(crate) fn project_keys(
        &self,
        keys: Sequences,
        values: &Sequences,
        positions: &Positions,
    ) -> Sequences {
        let others = [keys.argument("keys")];
        assert_together("attention", values.argument("values"), others);
        let [batch, key_heads, num_keys, _] = keys.dims();
        let is_projected = self.score.projects_keys() && batch * key_heads * num_keys > 0;
        keys.changed_if(is_projected, |keys| {
            self.score.project_keys(keys, positions)
        })
    }

    /// A memory of rows that many calls with `mask` share; `known` are the calls' `[heads, num_queries]`, as far as
    /// they are known.
    pub(crate) fn prepared(
        &self,
        mut rows: KeysAndValues,
        mask: Mask,
        known: [usize; 2],
    ) -> Memory {
        rows.prepared = match self.score.kernel() {
            ScoreKernel::Dot { .. } => match self.score.key_bias(&rows.keys.to_tensor()) {
                Some(_) if rows.are_keys_a_leaf() => PreparedKeys::BiasOfLeaf,
                Some(bias) => PreparedKeys::Bias(bias),
                None => PreparedKeys::None,
            },
            ScoreKernel::Additive { .. } => {
                let packed = pack_additive_keys(rows.keys.to_tensor(), &rows.mask, known);
                packed.map_or(PreparedKeys::None, PreparedKeys::Packed)
            }
            ScoreKernel::Pairwise { .. } | ScoreKernel::Custom => PreparedKeys::None,
        };
        if mask.depends_on_positions() {
            rows.mask = mask.settled();
        }
        Memory::owned_by::<S>(rows)
    }

    /// Whether a kernel reads the keys as given, with nothing computed from them first.
    fn reads_as_given(&self) -> bool {
        !self.score.projects_keys() && !matches!(self.score.kernel(), ScoreKernel::Custom)
    }
}
