//! Attention with linear biases.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_fused_layers::harness::checks::assert_positive;

use super::PositionBias;
use crate::score::wide;

/// Configuration of [`Alibi`].
#[derive(Config, Debug)]
pub struct AlibiConfig {
    /// The number of heads; each has a slope of its own.
    pub num_heads: usize,
    /// Whether keys after the query are as far as those before: `-slope * |position - j|`. By default they would be
    /// favoured, and a causal mask is expected to hide them.
    #[config(default = false)]
    pub bidirectional: bool,
}

impl AlibiConfig {
    /// The bias; it has no parameters.
    ///
    /// # Panics
    /// If `num_heads` is 0.
    pub fn init(&self) -> Alibi {
        assert_positive("AlibiConfig", &[("num_heads", self.num_heads)]);
        Alibi {
            num_heads: self.num_heads,
            bidirectional: self.bidirectional,
        }
    }
}

/// `bias(i, j) = -slope_h (position_i - j)`: the farther back a key, the lower its score, at another rate in each head.
/// Nothing is learned, and nothing limits the length.
///
/// Head `h` of `n`, counted from 1, has the slope `2^(-8 h / n)` where `n` is a power of two. Otherwise the heads up to
/// the next lower power of two have its slopes, and the rest every other slope of the next higher one.
///
/// For one query the bias is `slope_h j` plus a constant, so that around a dot product, with softmax, it goes through
/// the fused kernel as a bias per key; the bidirectional one does for one query at a time. There a score is rounded as
/// a number of the size of `slope_h keys` is.
///
/// Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
/// section 3.
#[derive(Module, Debug)]
pub struct Alibi {
    num_heads: usize,
    bidirectional: bool,
}

impl Alibi {
    /// The slope of each head.
    pub fn slopes(&self) -> Vec<f64> {
        let geometric = |heads: usize| (1..=heads).map(move |head| slope(head, heads));
        let power = 1_usize << self.num_heads.ilog2();
        geometric(power)
            .chain(geometric(2 * power).step_by(2))
            .take(self.num_heads)
            .collect()
    }

    /// The slopes, `[1, heads, 1, 1]`, times distances.
    fn times_slopes(&self, distances: Tensor<4>) -> Tensor<4> {
        let data = TensorData::new(self.slopes(), [1, self.num_heads, 1, 1]);
        let slopes = Tensor::<4>::from_data(data, (&distances.device(), distances.dtype()));
        distances * slopes
    }
}

fn slope(head: usize, heads: usize) -> f64 {
    (-8.0 * head as f64 / heads as f64).exp2()
}

/// `from .. from + number`, in a type that holds them all: the float type of the device may not.
fn positions(from: i64, number: usize, device: &Device, dtype: DType) -> Tensor<1> {
    let positions = Tensor::<1, Int>::arange(from..from + number as i64, device);
    positions.cast(FloatDType::from(wide(dtype)))
}

impl PositionBias for Alibi {
    fn bias(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> Tensor<4> {
        let first = num_keys as i64 - num_queries as i64;
        let queries = positions(first, num_queries, device, dtype).reshape([1, 1, num_queries, 1]);
        let keys = positions(0, num_keys, device, dtype).reshape([1, 1, 1, num_keys]);
        let ahead = keys - queries;
        let ahead = if self.bidirectional {
            -ahead.abs()
        } else {
            ahead
        };
        self.times_slopes(ahead).cast(dtype)
    }

    /// In f32 for half precision, which could not tell neighbouring keys apart.
    fn key_bias(&self, num_keys: usize, device: &Device, dtype: DType) -> Option<Tensor<4>> {
        if self.bidirectional {
            return None;
        }
        // Counted from the last key: the biases that matter most are the smallest, and exact.
        let from_last = positions(1 - num_keys as i64, num_keys, device, dtype);
        Some(self.times_slopes(from_last.reshape([1, 1, 1, num_keys])))
    }
}
