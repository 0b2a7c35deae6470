//! Embeddings of tokens, to which rows for their positions are added.

use attention_core::padding::fill_padding_tokens;
use attention_core::position::Positions;
use attention_core::{KeyValueCache, NewRows};
use burn::config::Config;
use burn::module::Module;
use burn::nn::{
    Dropout, DropoutConfig, Embedding, EmbeddingConfig, Initializer, Linear,
    PositionalEncodingConfig,
};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_positive, assert_together};
use burn_fused_layers::harness::parameter::{of_linear, value};
use burn_fused_layers::{EmbeddingTable, dropout};

use crate::norm::{Norm, NormConfig, normalized};
use crate::position_embedding::{
    PositionEmbedding, PositionEmbeddingConfig, PositionLimit, Sinusoids,
};

const NAME: &str = "TokenEmbedding";

/// Configuration of [`TokenEmbedding`].
#[derive(Config, Debug)]
pub struct TokenEmbeddingConfig {
    /// The number of tokens.
    pub vocab_size: usize,
    /// The size of a row.
    pub size: usize,
    /// The rows added by position.
    #[config(default = "PositionEmbeddingConfig::None")]
    pub positions: PositionEmbeddingConfig,
    /// The number of types of tokens, each with a learned row that is added, by which BERT distinguishes two sentences;
    /// by default tokens have no type.
    #[config(default = "None")]
    pub num_types: Option<usize>,
    /// Whether the embedding of a token is multiplied by `sqrt(size)`, before positions are added.
    #[config(default = false)]
    pub scaled: bool,
    /// The normalization of the sum, as in BERT; by default none.
    #[config(default = "None")]
    pub norm: Option<NormConfig>,
    /// The probability to drop an element of the sum while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl TokenEmbeddingConfig {
    /// An embedding on `device`, drawn from a normal distribution with variance `1 / size`: rows have length 1, and as
    /// the weight of a head (Press & Wolf 2017, "Using the Output Embedding to Improve Language Models") they give
    /// logits of variance 1 for normalized features.
    ///
    /// # Panics
    /// If a size or a number of positions or types is 0, there are more than 10,000 sinusoidal positions or their
    /// `size` is odd, or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> TokenEmbedding {
        const NAME: &str = "TokenEmbeddingConfig";
        let (vocab_size, size) = (self.vocab_size, self.size);
        assert_positive(NAME, &[("vocab_size", vocab_size), ("size", size)]);
        let table = |rows| {
            let std = 1.0 / (size as f64).sqrt();
            EmbeddingConfig::new(rows, size)
                .with_initializer(Initializer::Normal { mean: 0.0, std })
                .init(device)
        };
        let positions = match self.positions {
            PositionEmbeddingConfig::None => None,
            PositionEmbeddingConfig::Sinusoidal { max_positions } => {
                // Limits of Burn's encoding.
                assert!(
                    (1..=10_000).contains(&max_positions),
                    "{NAME}: max_positions of sines and cosines expected in 1 ..= 10000, got {max_positions}"
                );
                assert!(
                    size.is_multiple_of(2),
                    "{NAME}: size expected to be even, for sines and cosines, got {size}"
                );
                let config =
                    PositionalEncodingConfig::new(size).with_max_sequence_size(max_positions);
                Some(PositionEmbedding::Sinusoidal(config.init(device)))
            }
            PositionEmbeddingConfig::Unbounded => {
                Some(PositionEmbedding::Unbounded(Sinusoids { size }))
            }
            PositionEmbeddingConfig::Learned { max_positions } => {
                assert_positive(NAME, &[("max_positions", max_positions)]);
                Some(PositionEmbedding::Learned(table(max_positions)))
            }
        };
        let types = self.num_types.map(|num_types| {
            assert_positive(NAME, &[("num_types", num_types)]);
            table(num_types)
        });
        TokenEmbedding {
            tokens: table(vocab_size),
            positions,
            types,
            norm: self.norm.as_ref().map(|norm| norm.init(size, device)),
            dropout: DropoutConfig::new(self.dropout).init(),
            scaled: self.scaled,
            padding_token: None,
            angle_limit: None,
        }
    }
}

/// The embedding of tokens and of their positions: the input of a Transformer's first layer.
///
/// ```
/// use attention_core::position::Positions;
/// use attention_transformers::{PositionEmbeddingConfig, TokenEmbeddingConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let config = TokenEmbeddingConfig::new(31, 8)
///     .with_positions(PositionEmbeddingConfig::Sinusoidal { max_positions: 64 })
///     .with_scaled(true);
/// let embedding = config.init(&device);
/// let tokens = Tensor::<2, Int>::from_ints([[3, 1, 4], [1, 5, 9]], &device);
/// // The second example goes on after 7 tokens.
/// let rows = embedding.forward(tokens, &Positions::per_example([0, 7]));
/// assert_eq!(rows.dims(), [2, 3, 8]);
/// ```
#[derive(Module, Debug)]
pub struct TokenEmbedding {
    /// The row of each token, `[vocab_size, size]`.
    pub tokens: Embedding,
    /// The rows added by position.
    pub positions: Option<PositionEmbedding>,
    /// The row of each type of tokens, `[num_types, size]`. BERT's `token_type_embeddings`: Devlin et al. 2019, "BERT:
    /// Pre-training of Deep Bidirectional Transformers for Language Understanding", section 3.
    pub types: Option<Embedding>,
    /// The normalization of the sum.
    pub norm: Option<Norm>,
    /// Dropout on the sum, active while training.
    pub dropout: Dropout,
    scaled: bool,
    /// The token that does not count as a position, as in RoBERTa: it has row 0 of the learned table, whose other rows
    /// number the other tokens.
    pub(crate) padding_token: Option<usize>,
    /// The length that the angles of the layers allow.
    #[module(skip)]
    pub(crate) angle_limit: Option<PositionLimit>,
}

impl TokenEmbedding {
    /// The rows of `tokens` at `positions`; if tokens have types, all have the first type.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, size]`
    ///
    /// # Panics
    /// If a token does not exist, a position is beyond the added rows, or the tokens are on another device.
    pub fn forward(&self, tokens: Tensor<2, Int>, positions: &Positions) -> Tensor<3> {
        let types = self.types.is_some().then(|| tokens.zeros_like());
        self.sum(tokens, types, positions)
    }

    /// The rows of `tokens` with the types `types` at `positions`.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, rows, size]`
    ///
    /// # Panics
    /// If a type does not exist, the embedding has no types, and as [`forward`](Self::forward).
    pub fn forward_with_types(
        &self,
        tokens: Tensor<2, Int>,
        types: Tensor<2, Int>,
        positions: &Positions,
    ) -> Tensor<3> {
        self.sum(tokens, Some(types), positions)
    }

    /// The number of positions, if limited: by the angles of the layers, or by the table of positions.
    pub fn position_limit(&self) -> Option<PositionLimit> {
        let of_table = || {
            let rows = self.positions.as_ref()?.num_rows()?;
            Some(PositionLimit {
                max_positions: rows - usize::from(self.padding_token.is_some()),
                reason: "the table of positions has no more rows",
            })
        };
        self.angle_limit.or_else(of_table)
    }

    /// The rows of texts that begin, or that continue after the tokens in `cache`. Padding need not be a valid token.
    ///
    /// # Panics
    /// If a text is longer than the angles of the layers allow, and as [`forward`](Self::forward).
    pub(crate) fn of_texts(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
        cache: Option<&KeyValueCache>,
    ) -> Tensor<3> {
        let none = KeyValueCache::new();
        let cache = cache.unwrap_or(&none);
        let [batch, num_rows] = tokens.dims();
        let ranges = rows.ranges([batch, num_rows]);
        if let Some(limit) = self.angle_limit {
            let seen = cache.lengths();
            for (b, new) in ranges.iter().enumerate() {
                let len = seen.get(b).unwrap_or(&0) + new.len();
                assert!(
                    len <= limit.max_positions,
                    "{NAME}: texts of at most {} tokens expected, since {}, got {len} in text {b}",
                    limit.max_positions,
                    limit.reason
                );
            }
        }
        let positions = cache.positions(&ranges, num_rows, &tokens.device());
        let tokens = fill_padding_tokens(tokens, rows);
        match types.map(|types| fill_padding_tokens(types, rows)) {
            Some(types) => self.forward_with_types(tokens, types, &positions),
            None => self.forward(tokens, &positions),
        }
    }

    /// Weight and bias of the layer from rows to logits: `own`, otherwise the embedding of the tokens.
    pub(crate) fn head(&self, own: Option<&Linear>) -> (Tensor<2>, Option<Tensor<1>>) {
        match own {
            Some(own) => of_linear(own),
            None => (value(&self.tokens.weight).transpose(), None),
        }
    }

    fn sum(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        positions: &Positions,
    ) -> Tensor<3> {
        let [batch, num_rows] = tokens.dims();
        let table = value(&self.tokens.weight);
        let mut rows = rows_of("tokens", table, tokens.clone());
        if batch * num_rows == 0 {
            return rows;
        }
        if self.scaled {
            let [_, _, size] = rows.dims();
            rows = rows * (size as f64).sqrt();
        }
        if let Some(types) = types {
            let got = types.dims();
            assert!(
                got == [batch, num_rows],
                "{NAME}: types of [batch, rows] = {:?} expected, as tokens, got {got:?}",
                [batch, num_rows]
            );
            let Some(embedding) = &self.types else {
                panic!("{NAME}: no types expected, as the embedding has no `num_types`, got some");
            };
            rows = rows + rows_of("types", value(&embedding.weight), types);
        }
        if let Some(embedding) = &self.positions {
            let (device, dtype) = (rows.device(), rows.dtype());
            let shape = [batch, num_rows];
            let of_positions = match (self.padding_token, embedding) {
                (Some(padding), PositionEmbedding::Learned(table)) => {
                    numbered(value(&table.weight), tokens, padding, positions)
                }
                _ => embedding.rows(positions, shape, &device),
            };
            rows = rows + of_positions.cast(dtype);
        }
        dropout(&self.dropout, normalized(&self.norm, rows))
    }
}

/// The rows of positions, where each token's position is the number of tokens before it that are not `padding`, and
/// `padding` has the first row of the table, as in `transformers`' `create_position_ids_from_input_ids`.
fn numbered(
    table: Tensor<2>,
    tokens: Tensor<2, Int>,
    padding: usize,
    positions: &Positions,
) -> Tensor<3> {
    let shape = tokens.dims();
    // One feature suffices to check that positions are within the table.
    let [rows, _] = table.dims();
    positions.select(&table.clone().narrow(0, 1, rows - 1).narrow(1, 0, 1), shape);
    let positions = positions.tensor(shape, &tokens.device()).expand(shape);
    let is_padding = tokens.equal_elem(padding as i64);
    // Rows before the text of an example have no positions.
    let is_in_text = positions.clone().greater_equal_elem(0);
    let is_counted = is_padding.clone().bool_and(is_in_text);
    let before = is_counted.int().cumsum(1);
    let numbers = (positions - before + 1).mask_fill(is_padding, 0);
    rows_of("positions", table, numbers.clamp_min(0))
}

/// The rows of a table at `indices`, `[batch, rows, size]`.
///
/// # Panics
/// If they are on another device, or a row does not exist.
fn rows_of(name: &str, table: Tensor<2>, indices: Tensor<2, Int>) -> Tensor<3> {
    let ([batch, num_rows], [_, size]) = (indices.dims(), table.dims());
    let others = [Argument::on_device(name, &indices)];
    assert_together(NAME, Argument::on_device("embedding", &table), others);
    if batch * num_rows == 0 {
        return Tensor::empty([batch, num_rows, size], (&table.device(), table.dtype()));
    }
    let rows = EmbeddingTable::new(table).rows(indices.reshape([batch * num_rows]));
    rows.reshape([batch, num_rows, size])
}
