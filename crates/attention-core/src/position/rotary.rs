//! Rotary position embedding.

use burn::module::Module;
use burn::nn::RotaryEncodingConfig;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused_layers::harness::checks::{Argument, assert_positive, assert_together};

use crate::score::wide;
use crate::{Mask, PositionTerm, Positions, ScoreKernel, ScoringFunction, functional};

/// `a(q_i, k_j) = score(R(position_i) q_i, R(j) k_j)`, where `R(p)` turns each pair of neighbouring elements of a row,
/// `2 n` and `2 n + 1`, by the angle `p theta^(-2 n / size)`: a dot product then depends on the distance of the two
/// alone. Values are not turned.
///
/// The last query stands at the position of the last key, as in [`Mask::causal`], and so does the only query of a
/// decoder's step. There may therefore be no more queries than keys.
///
/// Sines and cosines are f32, whatever the type of the model (f64 where that is the device's float type), and half
/// precision is turned in f32: in it neighbouring positions would have the same angles (bf16 from 257, f16 from 2,049
/// on).
///
/// Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2. Burn's
/// `RotaryEncoding`, which makes its angles in the float type of the device.
///
/// ```
/// use attention_core::{Attention, DotProductScoreConfig, Mask, Rotary};
/// use burn::nn::RotaryEncodingConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// // 64 positions, queries and keys of 16 elements.
/// let encoding = RotaryEncodingConfig::new(64, 16);
/// let score = Rotary::new(DotProductScoreConfig::new().init(), &encoding, &device);
/// let attention = Attention::new(score, 0.0);
/// let rows = Tensor::<3>::ones([1, 5, 16], &device);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
/// assert_eq!(context.dims(), [1, 5, 16]);
/// ```
#[derive(Module, Debug)]
pub struct Rotary<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// The cosine of each position's angles, `[positions, size / 2]`.
    cosines: Tensor<2>,
    /// The sine, `[positions, size / 2]`.
    sines: Tensor<2>,
}

impl<S: ScoringFunction> Rotary<S> {
    /// `score` of rows turned as `encoding` says, whose `d_model` is the size of a query and of a key (of one head).
    ///
    /// # Panics
    /// If `d_model` is 0 or odd, `max_sequence_length` is 0, or `theta` is not a positive number.
    pub fn new(score: S, encoding: &RotaryEncodingConfig, device: &Device) -> Self {
        Self::with_frequencies(score, encoding, |frequency| frequency, device)
    }

    /// [`new`](Self::new) with other frequencies: `scaling` of each `theta^(-2 n / size)`, in radians per position.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with_frequencies(
        score: S,
        encoding: &RotaryEncodingConfig,
        scaling: impl Fn(f64) -> f64,
        device: &Device,
    ) -> Self {
        let (positions, size) = (encoding.max_sequence_length, encoding.d_model);
        let theta = f64::from(encoding.theta);
        assert_positive(
            "RotaryEncodingConfig",
            &[("max_sequence_length", positions), ("d_model", size)],
        );
        assert!(
            size.is_multiple_of(2),
            "RotaryEncodingConfig: d_model expected even, got {size}"
        );
        assert!(
            theta.is_finite() && theta > 0.0,
            "RotaryEncodingConfig: theta expected a finite number above 0, got {theta}"
        );
        let pairs = 0..size / 2;
        let frequencies: Vec<f64> = pairs
            .map(|pair| scaling(theta.powf(-2.0 * pair as f64 / size as f64)))
            .collect();
        let dtype = match device.settings().float_dtype.into() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let table = |of_angle: fn(f64) -> f64| {
            let of_position = |position| {
                let angles = frequencies
                    .iter()
                    .map(move |frequency| position as f64 * frequency);
                angles.map(of_angle)
            };
            let elements: Vec<f64> = (0..positions).flat_map(of_position).collect();
            Tensor::from_data(
                TensorData::new(elements, [positions, size / 2]),
                (device, dtype),
            )
        };
        Self {
            score,
            cosines: table(f64::cos),
            sines: table(f64::sin),
        }
    }

    fn turn(&self, rows: Tensor<4>, positions: &Positions) -> Tensor<4> {
        let [max_positions, pairs] = self.cosines.dims();
        let [_, _, num_rows, size] = rows.dims();
        let others = [Argument::on_device("rows", &rows)];
        assert_together(
            "Rotary",
            Argument::on_device("encoding", &self.cosines),
            others,
        );
        let expected = 2 * pairs;
        assert!(
            size == expected,
            "Rotary: rows of {expected} elements expected, as the encoding was made for, got {size}"
        );
        let start = positions
            .start()
            .unwrap_or_else(|| panic!("Rotary: consecutive positions expected, got {positions:?}"));
        let end = start + num_rows as i64;
        assert!(
            end <= max_positions as i64,
            "Rotary: at most {max_positions} positions expected, as the encoding was made for, got {end}"
        );
        let start = usize::try_from(start).unwrap_or_else(|_| {
            panic!("Rotary: at most as many queries as keys expected, {end}, got {num_rows}")
        });
        let dtype = wide(rows.dtype());
        let of_rows = |table: &Tensor<2>| table.clone().narrow(0, start, num_rows).cast(dtype);
        functional::rotate(rows, of_rows(&self.cosines), of_rows(&self.sines))
    }
}

impl<S: ScoringFunction> ScoringFunction for Rotary<S> {
    fn project_queries(&self, queries: Tensor<4>, positions: &Positions) -> Tensor<4> {
        let turned = self.turn(queries, positions);
        self.score.project_queries(turned, positions)
    }

    fn project_keys(&self, keys: Tensor<4>, positions: &Positions) -> Tensor<4> {
        let turned = self.turn(keys, positions);
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
