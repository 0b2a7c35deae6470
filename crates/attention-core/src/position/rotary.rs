//! Rotary position embedding.

use std::ops::Range;

use burn::module::Module;
use burn::nn::RotaryEncoding;
use burn::tensor::{DType, Device, Tensor};

use crate::{Mask, PositionTerm, ScoreKernel, ScoringFunction};

/// `a(q_i, k_j) = score(R(position_i) q_i, R(j) k_j)`, where `R(p)` turns each pair of elements of a row by an angle in
/// proportion to `p`: a dot product then depends on the distance of the two alone. Values are not turned.
///
/// The last query stands at the position of the last key, as in [`Mask::causal`], and so does the only query of a
/// decoder's step. There may therefore be no more queries than keys.
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

    fn turn(&self, rows: Tensor<4>, range: &Range<i64>) -> Tensor<4> {
        let [positions, ..] = self.encoding.freq_complex.dims();
        assert!(
            range.end <= positions as i64,
            "Rotary: at most {positions} positions expected, as the encoding was made for, got {}",
            range.end
        );
        let start = usize::try_from(range.start).unwrap_or_else(|_| {
            let (keys, queries) = (range.end, range.end - range.start);
            panic!("Rotary: at most as many queries as keys expected, {keys}, got {queries}")
        });
        let (given, turning) = (rows.dtype(), self.encoding.freq_complex.dtype());
        self.encoding.apply(rows.cast(turning), start).cast(given)
    }
}

impl<S: ScoringFunction> ScoringFunction for Rotary<S> {
    fn project_queries(&self, queries: Tensor<4>, positions: Range<i64>) -> Tensor<4> {
        let turned = self.turn(queries, &positions);
        self.score.project_queries(turned, positions)
    }

    fn project_keys(&self, keys: Tensor<4>, positions: Range<i64>) -> Tensor<4> {
        let turned = self.turn(keys, &positions);
        self.score.project_keys(turned, positions)
    }

    fn kernel(&self) -> ScoreKernel {
        self.score.kernel()
    }

    fn key_bias(&self, keys: &Tensor<4>) -> Option<Tensor<4>> {
        self.score.key_bias(keys)
    }

    fn position_term(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> PositionTerm {
        self.score
            .position_term(num_queries, num_keys, device, dtype)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        self.score.score(queries, keys, mask)
    }
}
