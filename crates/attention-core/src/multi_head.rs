//! Heads around any scoring function.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, assert_shape};

use crate::linear::project;
use crate::rank::reshape;
use crate::{
    Attention, AttentionOutput, DotProductScore, DotProductScoreConfig, Mask, Memory,
    ScoringFunction, ops,
};

/// Configuration of [`MultiHead`].
#[derive(Config, Debug)]
pub struct MultiHeadConfig {
    /// The number of hidden units of all heads together.
    pub num_hiddens: usize,
    /// The number of heads.
    pub num_heads: usize,
    /// The number of heads of keys and values, each shared by `num_heads / num_key_value_heads` heads of queries; by default
    /// `num_heads`.
    #[config(default = "None")]
    pub num_key_value_heads: Option<usize>,
    /// The size of a query; by default `num_hiddens`.
    #[config(default = "None")]
    pub query_size: Option<usize>,
    /// The size of a key; by default `num_hiddens`.
    #[config(default = "None")]
    pub key_size: Option<usize>,
    /// The size of a value; by default `num_hiddens`.
    #[config(default = "None")]
    pub value_size: Option<usize>,
    /// Whether a linear map mixes the heads' contexts; without one they lie side by side.
    #[config(default = true)]
    pub output: bool,
    /// The size of the context, where there is an output map; by default `num_hiddens`.
    #[config(default = "None")]
    pub output_size: Option<usize>,
    /// Whether the linear maps have a bias. The book's have none by default, PyTorch's and Burn's do.
    #[config(default = false)]
    pub bias: bool,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl MultiHeadConfig {
    /// Heads of scaled dot-product attention, with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size or a number is 0, `num_heads` does not divide `num_hiddens`, `num_key_value_heads` does not divide
    /// `num_heads`, an `output_size` is given without an output map, or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> MultiHead<DotProductScore> {
        self.init_with(DotProductScoreConfig::new().init(), device)
    }

    /// Heads around `score`, which compares queries and keys of [`head_size`](Self::head_size); all heads share its
    /// parameters. `score` should be on the same device.
    ///
    /// # Panics
    /// As [`init`](Self::init).
    pub fn init_with<S: ScoringFunction>(&self, score: S, device: &Device) -> MultiHead<S> {
        let hiddens = self.num_hiddens;
        let size = |size: Option<usize>| size.unwrap_or(hiddens);
        let num_key_value_heads = self.num_key_value_heads.unwrap_or(self.num_heads);
        let sizes = [
            ("num_hiddens", hiddens),
            ("num_heads", self.num_heads),
            ("num_key_value_heads", num_key_value_heads),
            ("query_size", size(self.query_size)),
            ("key_size", size(self.key_size)),
            ("value_size", size(self.value_size)),
            ("output_size", size(self.output_size)),
        ];
        for (name, size) in sizes {
            assert!(
                size > 0,
                "MultiHeadConfig: {name} expected at least 1, got 0"
            );
        }
        assert!(
            self.num_heads.is_multiple_of(num_key_value_heads),
            "MultiHeadConfig: num_key_value_heads expected to divide num_heads {}, got {num_key_value_heads}",
            self.num_heads
        );
        assert!(
            self.output || self.output_size.is_none(),
            "MultiHeadConfig: output_size expected only with an output map, got {:?} without one",
            self.output_size
        );
        let shared = self.head_size() * num_key_value_heads;
        let linear = |from, to| {
            LinearConfig::new(from, to)
                .with_bias(self.bias)
                .init(device)
        };
        MultiHead {
            query: linear(size(self.query_size), hiddens),
            key: linear(size(self.key_size), shared),
            value: linear(size(self.value_size), shared),
            output: self.output.then(|| linear(hiddens, size(self.output_size))),
            attention: Attention::new(score, self.dropout),
            num_heads: self.num_heads,
            num_key_value_heads,
        }
    }

    /// The size of a query, key and value within a head, `num_hiddens / num_heads`.
    ///
    /// # Panics
    /// If `num_heads` does not divide `num_hiddens`.
    pub fn head_size(&self) -> usize {
        let (hiddens, heads) = (self.num_hiddens, self.num_heads);
        assert!(
            heads > 0 && hiddens.is_multiple_of(heads),
            "MultiHeadConfig: num_heads expected to divide num_hiddens {hiddens}, got {heads}"
        );
        hiddens / heads
    }
}

/// Multi-head attention around any scoring function:
/// `W_o [head_1; ..; head_n]`, where `head_h = attention(W_q q, W_k k, W_v v)` on the `h`-th part of each projection.
///
/// With fewer heads of keys and values than of queries, neighbouring heads share theirs (grouped queries; with one, multi-query
/// attention). They are projected once, and repeated for the kernels.
///
/// A query that sees no key has a context of 0 in each head, so that the result is the bias of the output map.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; groups: Ainslie et al. 2023, "GQA: Training Generalized
/// Multi-Query Transformer Models from Multi-Head Checkpoints", section 2.2.
///
/// The book's `MultiHeadAttention`. Burn's `MultiHeadAttention` and this have the same record, with
/// [`bias`](MultiHeadConfig::bias). PyTorch equivalent: `torch.nn.MultiheadAttention(batch_first=True)`; for its parameters and
/// the book's, see [`import`](crate::import::load_multi_head_attention).
///
/// ```
/// use attention_core::{Mask, MultiHeadConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = MultiHeadConfig::new(16, 4).with_num_key_value_heads(Some(2)).init(&device);
/// let rows = Tensor::<3>::ones([1, 5, 16], &device);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
/// assert_eq!(context.dims(), [1, 5, 16]);
/// ```
#[derive(Module, Debug)]
pub struct MultiHead<S: ScoringFunction> {
    /// W_q, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// W_k, `[key_size, head_size * num_key_value_heads]`.
    pub key: Linear,
    /// W_v, `[value_size, head_size * num_key_value_heads]`.
    pub value: Linear,
    /// W_o, `[num_hiddens, output_size]`.
    pub output: Option<Linear>,
    /// What each head does.
    pub attention: Attention<S>,
    pub(crate) num_heads: usize,
    pub(crate) num_key_value_heads: usize,
}

/// What [`MultiHead::forward_with_weights`] returns.
#[derive(Clone, Debug)]
pub struct MultiHeadOutput {
    /// `[batch, queries, output_size]`
    pub context: Tensor<3>,
    /// The attention weights before dropout, `[batch, heads, queries, keys]`.
    pub weights: Tensor<4>,
}

impl<S: ScoringFunction> MultiHead<S> {
    /// The context of each query.
    ///
    /// A mask with a heads axis has `num_heads` or 1 there.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`
    /// - result `[batch, queries, output_size]`
    ///
    /// # Panics
    /// If the shapes or the mask do not fit together.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        mask: &Mask,
    ) -> Tensor<3> {
        let [_, num_queries, _] = queries.dims();
        let [keys, values] = self.keys_and_values(keys, values, mask, num_queries);
        let queries = self.queries(queries);
        self.join(self.attention.forward(queries, keys, values, mask))
    }

    /// [`forward`](Self::forward), and the weights of each head that led to the context.
    pub fn forward_with_weights(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        mask: &Mask,
    ) -> MultiHeadOutput {
        let [_, num_queries, _] = queries.dims();
        let [keys, values] = self.keys_and_values(keys, values, mask, num_queries);
        let queries = self.queries(queries);
        let attention = &self.attention;
        self.join_output(attention.forward_with_weights(queries, keys, values, mask))
    }

    /// Projects keys and values once, for many calls of [`attend`](Self::attend).
    ///
    /// # Shapes
    /// - keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`
    ///
    /// # Panics
    /// If keys and values differ in batch or number.
    pub fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        let (known, num_queries) = mask.without_positions();
        let [keys, values] = self.keys_and_values(keys, values, &known, num_queries);
        self.attention.prepare(keys, values, mask)
    }

    /// The context of each query, from prepared keys and values.
    ///
    /// # Shapes
    /// - queries `[batch, queries, query_size]`, result `[batch, queries, output_size]`
    ///
    /// # Panics
    /// If the queries or the mask do not fit the memory, or it was prepared for a score of another type.
    pub fn attend(&self, queries: Tensor<3>, memory: &Memory) -> Tensor<3> {
        self.join(self.attention.attend(self.queries(queries), memory))
    }

    /// [`attend`](Self::attend), and the weights of each head that led to the context.
    ///
    /// # Panics
    /// As [`attend`](Self::attend).
    pub fn attend_with_weights(&self, queries: Tensor<3>, memory: &Memory) -> MultiHeadOutput {
        let queries = self.queries(queries);
        self.join_output(self.attention.attend_with_weights(queries, memory))
    }

    fn queries(&self, queries: Tensor<3>) -> Tensor<4> {
        split(&self.query, queries, self.num_heads)
    }

    /// Keys and values of each head of queries. Padding is cleared before it is projected: the gradient of a projection
    /// multiplies by its input, and padding may hold anything.
    fn keys_and_values(
        &self,
        keys: Tensor<3>,
        values: Tensor<3>,
        mask: &Mask,
        num_queries: usize,
    ) -> [Tensor<4>; 2] {
        let [batch, num_keys, _] = keys.dims();
        assert_shape!(values, [batch, num_keys, _]);
        let mask = mask.of_any_head();
        [(&self.key, keys), (&self.value, values)].map(|(linear, rows)| {
            let [_, _, size] = rows.dims();
            let rows = reshape(rows, [batch, 1, num_keys, size]);
            let rows = ops::fill_padding(rows, &mask, num_queries);
            let rows = reshape(rows, [batch, num_keys, size]);
            let heads = split(linear, rows, self.num_key_value_heads);
            repeat_heads(heads, self.num_heads / self.num_key_value_heads)
        })
    }

    /// The heads' contexts side by side, through the output map.
    fn join(&self, heads: Tensor<4>) -> Tensor<3> {
        let [batch, num_heads, rows, size] = heads.dims();
        let joined = reshape(heads.swap_dims(1, 2), [batch, 1, rows, num_heads * size]);
        let output = match &self.output {
            Some(output) => map(output, joined),
            None => joined,
        };
        let [_, _, _, size] = output.dims();
        reshape(output, [batch, rows, size])
    }

    fn join_output(&self, output: AttentionOutput<4>) -> MultiHeadOutput {
        MultiHeadOutput {
            context: self.join(output.context),
            weights: output.weights,
        }
    }
}

/// `[batch, rows, size]` as `[batch, heads, rows, head_size]`, projected.
fn split(linear: &Linear, rows: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, num_rows, size] = rows.dims();
    let projected = map(linear, reshape(rows, [batch, 1, num_rows, size]));
    let [_, _, _, size] = projected.dims();
    reshape(projected, [batch, num_rows, heads, size / heads]).swap_dims(1, 2)
}

/// `linear` of rows, of which there may be none.
fn map(linear: &Linear, rows: Tensor<4>) -> Tensor<4> {
    let [from, to] = linear.weight.shape().dims();
    let [batch, _, num_rows, size] = rows.dims();
    assert_shape!(rows, [batch, 1, num_rows, from]);
    match batch * num_rows * size {
        0 => Tensor::zeros([batch, 1, num_rows, to], (&rows.device(), rows.dtype())),
        _ => project(linear, rows),
    }
}

/// Each head `group` times, the copies next to each other; a single head is only shown that often, not copied.
fn repeat_heads(heads: Tensor<4>, group: usize) -> Tensor<4> {
    let [batch, num_heads, rows, size] = heads.dims();
    if group == 1 || batch * rows == 0 {
        return reshape(heads, [batch, num_heads * group, rows, size]);
    }
    if num_heads == 1 {
        return heads.expand([batch, group, rows, size]);
    }
    heads
        .reshape([batch, num_heads, 1, rows, size])
        .expand([batch, num_heads, group, rows, size])
        .reshape([batch, num_heads * group, rows, size])
}
