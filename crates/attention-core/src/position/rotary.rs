//! Rotary position embedding.

use burn::module::Module;
use burn::nn::RotaryEncoding;
use burn::tensor::Tensor;

use crate::{Mask, Memory, ScoringFunction};

/// `a(q_i, k_j) = score(R(position_i) q_i, R(j) k_j)`, where `R(p)` turns each pair of numbers of a row by an angle in
/// proportion to `p`: a dot product then depends on the distance of the two alone. Values are not turned.
///
/// Keys are turned once, as they are prepared, counted from 0. Queries are turned when they meet the keys, the last of them at
/// the position of the last key, as in [`Mask::causal`]: a step of a decoder with one query stands at the last key. There may
/// therefore be no more queries than keys.
///
/// The turn is computed in the type of the encoding, f32 unless the device says otherwise.
///
/// Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.
///
/// ```
/// use attention_core::{Attention, DotProductScoreConfig, Mask, Rotary};
/// use burn::nn::RotaryEncodingConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let encoding = RotaryEncodingConfig::new(64, 16).init(&device);
/// let attention = Attention::new(Rotary::new(DotProductScoreConfig::new().init(), encoding), 0.0);
/// let rows = Tensor::<3>::ones([1, 5, 16], &device);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
/// assert_eq!(context.dims(), [1, 5, 16]);
/// ```
#[derive(Module, Debug)]
pub struct Rotary<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// The angles, for as many positions as it was made for.
    pub encoding: RotaryEncoding,
}

impl<S: ScoringFunction> Rotary<S> {
    /// `score` of rows turned by `encoding`, whose `d_model` is the size of a query and of a key (of one head).
    pub fn new(score: S, encoding: RotaryEncoding) -> Self {
        Self { score, encoding }
    }

    fn turn(&self, rows: Tensor<4>, start: usize) -> Tensor<4> {
        let [positions, ..] = self.encoding.freq_complex.dims();
        let [_, _, num_rows, _] = rows.dims();
        assert!(
            start + num_rows <= positions,
            "Rotary: at most {positions} positions expected, as the encoding was made for, got {}",
            start + num_rows
        );
        let (given, turning) = (rows.dtype(), self.encoding.freq_complex.dtype());
        self.encoding.apply(rows.cast(turning), start).cast(given)
    }

    /// The queries, turned and projected.
    fn queries(&self, queries: Tensor<4>, num_keys: usize) -> Tensor<4> {
        let [_, _, num_queries, _] = queries.dims();
        assert!(
            num_queries <= num_keys,
            "Rotary: at most as many queries as keys expected, {num_keys}, got {num_queries}"
        );
        let turned = self.turn(queries, num_keys - num_queries);
        self.score.project_queries(turned)
    }
}

impl<S: ScoringFunction> ScoringFunction for Rotary<S> {
    fn project_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        self.score.project_keys(self.turn(keys, 0))
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let [_, _, num_keys, _] = keys.dims();
        let queries = self.queries(queries, num_keys);
        self.score.score(queries, keys, mask)
    }

    fn extend_keys(&self, keys: &Tensor<4>, mask: &Mask, num_queries: usize) -> Option<Tensor<4>> {
        self.score.extend_keys(keys, mask, num_queries)
    }

    fn attend(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
        let queries = self.queries(queries, memory.num_keys());
        self.score.attend(queries, memory, dropout)
    }

    fn attend_with_bias(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        dropout: f64,
        bias: Tensor<4>,
    ) -> Tensor<4> {
        let queries = self.queries(queries, memory.num_keys());
        self.score.attend_with_bias(queries, memory, dropout, bias)
    }
}
