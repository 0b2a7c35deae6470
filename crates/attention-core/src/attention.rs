//! Attention pooling: score, masked softmax, dropout, weighted sum.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor, assert_shape};

use crate::ops::SharedGradients;
use crate::rank::{from_four_axes, to_four_axes};
use crate::score::drop_weights;
use crate::{
    AdditiveScore, AdditiveScoreConfig, DotProductScore, DotProductScoreConfig, Mask, Memory,
    Normalizer, ScoringFunction, ops,
};

/// Attention pooling with any scoring function:
/// `context_i = sum_j softmax_j(score(query_i, key_j)) value_j` over the keys that the mask shows.
///
/// Queries, keys and values all have three axes, `[batch, rows, size]`, or all four, `[batch, heads, rows, size]`.
#[derive(Module, Debug)]
pub struct Attention<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// Dropout on the weights, active while training.
    pub dropout: Dropout,
    /// What makes weights of scores; softmax unless [`with_normalizer`](Self::with_normalizer) says otherwise.
    #[module(skip)]
    pub normalizer: Normalizer,
}

/// Additive attention, `score = w_v . tanh(W_q q + W_k k)` (Bahdanau et al. 2015).
///
/// The book's `AdditiveAttention`; see [`import`](crate::import) to load its PyTorch parameters.
pub type AdditiveAttention = Attention<AdditiveScore>;

/// Scaled dot-product attention, `score = q . k / sqrt(query_size)` (Vaswani et al. 2017).
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`.
pub type DotProductAttention = Attention<DotProductScore>;

/// Configuration of [`AdditiveAttention`].
#[derive(Config, Debug)]
pub struct AdditiveAttentionConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which the two are compared.
    pub num_hiddens: usize,
    /// Whether the hidden units have a bias; see [`AdditiveScore`].
    #[config(default = false)]
    pub bias: bool,
    /// Whether w_v is normalised, with a bias; see [`AdditiveScore`].
    #[config(default = false)]
    pub normalize: bool,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl AdditiveAttentionConfig {
    /// Attention with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0 or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> AdditiveAttention {
        let score = AdditiveScoreConfig::new(self.query_size, self.key_size, self.num_hiddens)
            .with_bias(self.bias)
            .with_normalize(self.normalize);
        Attention::new(score.init(device), self.dropout)
    }
}

/// Configuration of [`DotProductAttention`].
#[derive(Config, Debug)]
pub struct DotProductAttentionConfig {
    /// The factor on the dot product; by default `1 / sqrt(query_size)`.
    #[config(default = "None")]
    pub scale: Option<f64>,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl DotProductAttentionConfig {
    /// Attention; it has no parameters, and runs on the device of its inputs.
    ///
    /// # Panics
    /// If `scale` is not finite or `dropout` is not in `[0, 1)`.
    pub fn init(&self) -> DotProductAttention {
        let score = DotProductScoreConfig::new().with_scale(self.scale);
        Attention::new(score.init(), self.dropout)
    }
}

/// What [`Attention::forward_with_weights`] returns.
#[derive(Clone, Debug)]
pub struct AttentionOutput<const D: usize> {
    /// `[batch, queries, value_size]` or `[batch, heads, queries, value_size]`.
    pub context: Tensor<D>,
    /// The attention weights before dropout. With softmax each row sums to 1, or to 0 where a query sees no key:
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
    /// If the shapes, the types of the numbers or the mask do not fit together.
    pub fn forward<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: &Mask,
    ) -> Tensor<D> {
        let memory = self.memory(keys, values, mask, queries_axis(&queries));
        self.attend(queries, &memory)
    }

    /// [`forward`](Self::forward), and the weights that led to the context.
    pub fn forward_with_weights<const D: usize>(
        &self,
        queries: Tensor<D>,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: &Mask,
    ) -> AttentionOutput<D> {
        let memory = self.memory(keys, values, mask, queries_axis(&queries));
        self.attend_with_weights(queries, &memory)
    }

    /// Projects keys once, for many calls of [`attend`](Self::attend).
    ///
    /// # Shapes
    /// - keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`, or with heads
    ///
    /// # Panics
    /// If keys and values differ in batch, heads, number or the type of their numbers.
    pub fn prepare<const D: usize>(
        &self,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: Mask,
    ) -> Memory {
        let (known, num_queries) = mask.without_positions();
        let memory = self.memory(keys, values, &known, num_queries);
        let shared = SharedGradients::default();
        let keys = ops::share_gradients(memory.keys, &shared.keys);
        let values = ops::share_gradients(memory.values, &shared.values);
        let extension = self.score.extend_keys(&keys, &known, num_queries);
        let mut memory = Memory::of_cleared(keys, values, mask).owned_by::<S>();
        (memory.extension, memory.shared) = (extension, Some(shared));
        memory
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
    /// If the queries, the type of their numbers or the mask do not fit the memory, or it was prepared for a score of another
    /// type.
    pub fn attend<const D: usize>(&self, queries: Tensor<D>, memory: &Memory) -> Tensor<D> {
        let queries = to_four_axes(queries);
        from_four_axes(match self.project_queries(queries.clone(), memory) {
            Some(projected) => {
                let dropout = self.active_dropout(&queries);
                match self.normalizer {
                    Normalizer::Softmax => self.score.attend(projected, memory, dropout),
                    _ => self.pool(projected, memory, dropout).context,
                }
            }
            None => empty(&queries, &memory.values).context,
        })
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
        let queries = to_four_axes(queries);
        let output = match self.project_queries(queries.clone(), memory) {
            Some(projected) => self.pool(projected, memory, self.active_dropout(&queries)),
            None => empty(&queries, &memory.values),
        };
        AttentionOutput {
            context: from_four_axes(output.context),
            weights: from_four_axes(output.weights),
        }
    }

    /// Score, normalizer, dropout, weighted sum: each a step of its own.
    fn pool(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> AttentionOutput<4> {
        let mask = &memory.mask;
        let scores = self.score.score(queries, memory.keys(), mask);
        let weights = self.normalizer.weights(scores, mask);
        let dropped = drop_weights(weights.clone(), dropout);
        AttentionOutput {
            context: ops::weighted_sum(dropped, memory.values(), mask),
            weights,
        }
    }

    /// Projects the keys, after padding is cleared: the gradient of a projection multiplies by its input, and
    /// padding may hold anything.
    fn memory<const D: usize>(
        &self,
        keys: Tensor<D>,
        values: Tensor<D>,
        mask: &Mask,
        num_queries: usize,
    ) -> Memory {
        let keys = to_four_axes(keys);
        let values = to_four_axes(values);
        let [batch, heads, num_keys, _] = keys.dims();
        assert_shape!(values, [batch, heads, num_keys, _]);
        assert_dtype("keys", &keys, &values);
        let keys = ops::fill_padding(keys, mask, num_queries);
        let keys = match batch * heads * num_keys {
            0 => keys,
            _ => self.score.project_keys(keys),
        };
        Memory::of_cleared(keys, values, mask.clone())
    }

    /// The projected queries, or `None` where an axis of size 0 leaves nothing to attend to.
    fn project_queries(&self, queries: Tensor<4>, memory: &Memory) -> Option<Tensor<4>> {
        memory.expect_owner::<S>();
        let [batch, heads, num_keys, _] = memory.values.dims();
        let [_, _, num_queries, _] = queries.dims();
        assert_shape!(queries, [batch, heads, num_queries, _]);
        assert_dtype("queries", &queries, &memory.values);
        match batch * heads * num_queries * num_keys {
            0 => None,
            _ => Some(self.score.project_queries(queries)),
        }
    }

    /// The dropout probability in force: 0 unless the module trains, on a training device.
    fn active_dropout(&self, queries: &Tensor<4>) -> f64 {
        match self.dropout.training.is_enabled() && queries.device().is_autodiff() {
            true => self.dropout.prob,
            false => 0.0,
        }
    }
}

/// # Panics
/// If the type is not that of the values.
fn assert_dtype(name: &str, tensor: &Tensor<4>, values: &Tensor<4>) {
    let (expected, got) = (values.dtype(), tensor.dtype());
    assert!(
        got == expected,
        "{name} expected of type {expected:?}, as the values, got {got:?}"
    );
}

fn queries_axis<const D: usize>(queries: &Tensor<D>) -> usize {
    queries.dims()[D - 2]
}

/// No keys, no queries or no examples: zeros.
fn empty(queries: &Tensor<4>, values: &Tensor<4>) -> AttentionOutput<4> {
    let [batch, heads, num_queries, _] = queries.dims();
    let [_, _, num_keys, value_size] = values.dims();
    let options = (&values.device(), values.dtype());
    AttentionOutput {
        context: Tensor::zeros([batch, heads, num_queries, value_size], options),
        weights: Tensor::zeros([batch, heads, num_queries, num_keys], options),
    }
}
