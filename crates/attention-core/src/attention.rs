//! Attention pooling: score, masked softmax, dropout, weighted sum.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::checks::assert_batch;
use crate::functional::{self, SharedTensor, drop_weights, repeat_key_heads};
use crate::memory::{PreparedKeys, SharedMemory};
use crate::rank::{from_four_axes, to_four_axes};
use crate::score::{checked_heads, default_scale, per_head, sum_of_biases, widened};
use crate::{
    AdditiveScore, DotProductScore, Mask, Memory, Normalizer, PositionTerm, Positions, ScoreKernel,
    ScoringFunction,
};

/// Attention pooling with any scoring function:
/// `context_i = sum_j softmax_j(score(query_i, key_j)) value_j` over the keys that the mask shows.
///
/// Queries, keys and values all have three axes, `[batch, queries or keys, size]`, or all four, with the heads after
/// the batch.
#[derive(Module, Debug)]
pub struct Attention<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// Dropout on the weights, active while training.
    pub dropout: Dropout,
    /// The function from scores to weights; softmax unless [`with_normalizer`](Self::with_normalizer) says otherwise.
    #[module(skip)]
    pub normalizer: Normalizer,
}

/// Additive attention, `score = w_v . tanh(W_q q + W_k k)` (Bahdanau et al. 2015).
///
/// D2L's `AdditiveAttention`; the module `import` (feature `pytorch`) loads its PyTorch parameters.
pub type AdditiveAttention = Attention<AdditiveScore>;

/// Scaled dot-product attention, `score = q . k / sqrt(query_size)` (Vaswani et al. 2017).
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`.
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
        }
    }

    /// The same with another normalizer than softmax.
    pub fn with_normalizer(self, normalizer: Normalizer) -> Self {
        Self { normalizer, ..self }
    }

    /// The context of each query.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, keys `[batch, keys, key_size]`,
    ///   values `[batch, keys, value_size]`, or all with a heads axis after the batch
    /// - result `[batch, queries, value_size]`
    ///
    /// # Panics
    /// If the shapes, the types of the elements or the mask do not fit together.
    pub fn forward<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: &Mask,
    ) -> Tensor<D> {
        let memory = self.memory(keys, values, mask, queries.dims()[D - 2]);
        let [_, heads, _, _] = memory.keys.dims();
        from_four_axes(self.attend_heads(to_four_axes(queries), heads, &memory))
    }

    /// [`forward`](Self::forward), and the weights that led to the context.
    pub fn forward_with_weights<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: &Mask,
    ) -> AttentionOutput<D> {
        let memory = self.memory(keys, values, mask, queries.dims()[D - 2]);
        self.attend_with_weights(queries, &memory)
    }

    /// Projects keys once, for many calls of [`attend`](Self::attend).
    ///
    /// In training, what is projected takes one backward pass, as any tensor that was computed. Leaves of the graph
    /// that are read as they are (values; keys of a score that does not [project](ScoringFunction::projects_keys) them)
    /// take any number.
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
        mask: Mask,
    ) -> Memory {
        let (known, num_queries) = mask.without_positions();
        let memory = self.memory(keys.clone(), values.clone(), &known, num_queries);
        let [_, heads, _, _] = memory.keys.dims();
        let mut shared = SharedMemory::of(&memory);
        if keys.is_require_grad() && self.reads_as_given() {
            shared.keys = SharedTensor::new(keys);
        }
        if values.is_require_grad() {
            shared.values = SharedTensor::new(values);
        }
        self.prepared(memory, shared, mask, [heads, num_queries])
    }

    /// The context of each query, from prepared keys and values.
    ///
    /// A mask that depends on positions (causal, window) is aligned with the queries of this call.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, or with heads
    /// - result `[batch, queries, value_size]`
    ///
    /// # Panics
    /// If the queries, the type of their elements or the mask do not fit the memory, or it was prepared for a score of
    /// another type.
    pub fn attend<const D: usize>(&self, queries: Tensor<D>, memory: &Memory) -> Tensor<D> {
        let [_, heads, _, _] = memory.keys.dims();
        let memory = memory.for_queries([heads, queries.dims()[D - 2]]);
        from_four_axes(self.attend_heads(to_four_axes(queries), heads, &memory))
    }

    /// [`attend`](Self::attend), and the weights that led to the context.
    ///
    /// # Panics
    /// As [`attend`](Self::attend).
    pub fn attend_with_weights<const D: usize>(
        &self,
        queries: Tensor<D>,
        memory: &Memory,
    ) -> AttentionOutput<D> {
        let [_, heads, _, _] = memory.keys.dims();
        let memory = memory.for_queries([heads, queries.dims()[D - 2]]);
        let output = self.attend_heads_with_weights(to_four_axes(queries), heads, &memory);
        AttentionOutput {
            context: from_four_axes(output.context),
            weights: from_four_axes(output.weights),
        }
    }

    /// Keys, projected after padding is cleared: the gradient of a projection multiplies by its input, and padding may
    /// hold anything.
    fn memory<const D: usize>(
        &self,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: &Mask,
        num_queries: usize,
    ) -> Memory {
        let [keys, values] = [to_four_axes(keys), to_four_axes(values)];
        let [batch, heads, num_keys, _] = keys.dims();
        assert_shape!(values, [batch, heads, num_keys, _]);
        let scores = [batch, heads, num_queries, num_keys];
        let mask = mask.resolved_for(scores, &keys.device());
        let keys = functional::fill_padding(keys, &mask, [heads, num_queries]);
        self.memory_of_cleared(keys, values, mask)
    }

    /// [`memory`](Self::memory), of keys whose padding is cleared; there may be fewer heads of them than of queries.
    pub(crate) fn memory_of_cleared(
        &self,
        keys: Tensor<4>,
        values: Tensor<4>,
        mask: Mask,
    ) -> Memory {
        let others = [Argument::floats("keys", &keys)];
        assert_together("attention", Argument::floats("values", &values), others);
        let [batch, heads, num_keys, _] = keys.dims();
        let keys = if batch * heads * num_keys == 0 {
            keys
        } else {
            self.score.project_keys(keys, &Positions::consecutive(0))
        };
        Memory::of_cleared(keys, values, mask)
    }

    /// A memory for many calls, which come with `mask`; `[heads, num_queries]` of them are known so far.
    pub(crate) fn prepared(
        &self,
        memory: Memory,
        shared: SharedMemory,
        mask: Mask,
        known: [usize; 2],
    ) -> Memory {
        let keys = memory.keys();
        let prepared = match self.score.kernel() {
            ScoreKernel::Dot { .. } => {
                let bias = self.score.key_bias(&keys);
                bias.map(|bias| match shared.keys.is_leaf() {
                    true => PreparedKeys::BiasOfLeaf,
                    false => PreparedKeys::Bias(bias),
                })
            }
            ScoreKernel::Additive { .. } => {
                functional::pack_additive_keys(keys, &memory.mask, known).map(PreparedKeys::Packed)
            }
            ScoreKernel::Custom => None,
        };
        let mask = if mask.depends_on_positions() {
            mask
        } else {
            memory.mask
        };
        let mut memory = Memory::of_cleared(memory.keys, memory.values, mask).owned_by::<S>();
        memory.prepared = prepared.unwrap_or(PreparedKeys::None);
        memory.shared = Some(shared);
        memory
    }

    /// Whether a kernel reads keys as they are, and nothing is computed of them before.
    fn reads_as_given(&self) -> bool {
        !self.score.projects_keys() && !matches!(self.score.kernel(), ScoreKernel::Custom)
    }

    /// The context of `heads` heads of queries.
    pub(crate) fn attend_heads(
        &self,
        queries: Tensor<4>,
        heads: usize,
        memory: &Memory,
    ) -> Tensor<4> {
        let dropout = self.active_dropout(&queries);
        let [_, _, num_queries, _] = queries.dims();
        let Some(queries) = self.project_queries(queries, heads, memory) else {
            return zeros(heads, num_queries, memory).context;
        };
        let [_, _, _, size] = queries.dims();
        let (device, dtype) = (queries.device(), queries.dtype());
        let kernel = self.score.kernel();
        if self.normalizer != Normalizer::Softmax || matches!(kernel, ScoreKernel::Custom) {
            return self.pool(queries, memory, kernel, dropout).context;
        }
        let of_positions = self
            .score
            .position_term(num_queries, memory.num_keys(), &device, dtype);
        match (kernel, of_positions) {
            (ScoreKernel::Dot { scale }, term @ (PositionTerm::None | PositionTerm::PerKey(_))) => {
                let of_keys = memory
                    .key_bias()
                    .or_else(|| self.score.key_bias(&memory.keys_without_bias()?))
                    .map(|bias| per_head(bias, heads));
                let of_positions = match term {
                    PositionTerm::PerKey(bias) => Some(checked_heads(bias, heads)),
                    _ => None,
                };
                let biases = of_keys.into_iter().chain(of_positions);
                let bias = biases.reduce(sum_of_biases);
                let scale = scale.unwrap_or_else(|| default_scale(size));
                functional::dot_product_attention(queries, memory, scale, bias, dropout)
            }
            (ScoreKernel::Additive { weight }, PositionTerm::None) => {
                functional::additive_attention(queries, memory, weight, dropout)
            }
            (kernel, _) => self.pool(queries, memory, kernel, dropout).context,
        }
    }

    /// [`attend_heads`](Self::attend_heads), and the weights.
    pub(crate) fn attend_heads_with_weights(
        &self,
        queries: Tensor<4>,
        heads: usize,
        memory: &Memory,
    ) -> AttentionOutput<4> {
        let dropout = self.active_dropout(&queries);
        let [_, _, num_queries, _] = queries.dims();
        match self.project_queries(queries, heads, memory) {
            Some(queries) => self.pool(queries, memory, self.score.kernel(), dropout),
            None => zeros(heads, num_queries, memory),
        }
    }

    /// Score, normalizer, dropout, weighted sum: each a step of its own.
    fn pool(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        kernel: ScoreKernel,
        dropout: f64,
    ) -> AttentionOutput<4> {
        let mask = &memory.mask;
        let [_, heads, _, _] = queries.dims();
        let keys = match kernel {
            // Its author need not think of shared heads.
            ScoreKernel::Custom => repeat_key_heads(memory.read_cleared_keys(), heads),
            _ => memory.read_cleared_keys(),
        };
        let dtype = queries.dtype();
        // Scores of half precision are f32, as in the fused kernel: in f16 they would overflow, and what tells
        // neighbouring positions apart would be rounded away.
        let (queries, keys) = match kernel {
            ScoreKernel::Dot { .. } => (widened(queries), widened(keys)),
            ScoreKernel::Additive { .. } | ScoreKernel::Custom => (queries, keys),
        };
        let scores = self.score.score(queries, keys, mask);
        let weights = self.normalizer.weights(scores, mask).cast(dtype);
        let dropped = drop_weights(weights.clone(), dropout);
        AttentionOutput {
            context: functional::weighted_sum(dropped, memory.read_values(), mask),
            weights,
        }
    }

    /// The projected queries; `None` where an axis of size 0 leaves nothing to attend to.
    ///
    /// # Panics
    /// If the memory is not for this score, or for `heads` heads of queries like these.
    fn project_queries(
        &self,
        queries: Tensor<4>,
        heads: usize,
        memory: &Memory,
    ) -> Option<Tensor<4>> {
        memory.expect_owner::<S>();
        let [batch, _, num_keys, _] = memory.values.dims();
        let [_, _, num_queries, _] = queries.dims();
        assert_batch(&queries, &memory.values);
        assert_shape!(queries, [batch, heads, num_queries, _]);
        let others = [Argument::floats("queries", &queries)];
        assert_together(
            "attention",
            Argument::floats("values", &memory.values),
            others,
        );
        let positions = Positions::consecutive(num_keys as i64 - num_queries as i64);
        let is_empty = batch * heads * num_queries * num_keys == 0;
        (!is_empty).then(|| {
            let queries = functional::fill_keyless(queries, &memory.mask, [heads, num_keys]);
            self.score.project_queries(queries, &positions)
        })
    }

    /// The dropout probability in force: 0 unless the module trains, on a training device.
    fn active_dropout(&self, queries: &Tensor<4>) -> f64 {
        if self.dropout.training.is_enabled() && queries.device().is_autodiff() {
            self.dropout.prob
        } else {
            0.0
        }
    }
}

/// The output where there is nothing to attend to.
fn zeros(heads: usize, num_queries: usize, memory: &Memory) -> AttentionOutput<4> {
    let [batch, _, num_keys, value_size] = memory.values.dims();
    let options = (&memory.values.device(), memory.values.dtype());
    AttentionOutput {
        context: Tensor::zeros([batch, heads, num_queries, value_size], options),
        weights: Tensor::zeros([batch, heads, num_queries, num_keys], options),
    }
}
