//! Attention with linear biases.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused_layers::harness::checks::assert_positive;

use super::PositionBias;

/// Configuration of [`Alibi`].
#[derive(Config, Debug)]
pub struct AlibiConfig {
    /// The number of heads; each has a slope of its own.
    pub num_heads: usize,
    /// Whether keys after the query count by their distance, like keys before it: `-slope * |position - j|`. By default
    /// they would be favoured, and a causal mask is expected to mask them.
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

/// `bias(i, j) = -slope_h (position_i - j)`, made by [`AlibiConfig`]: the farther back a key, the lower its score, at a
/// different rate in each head. Nothing is learned, and nothing limits the length.
///
/// Head `h` of `n`, counted from 1, has the slope `2^(-8 h / n)` where `n` is a power of two. Otherwise the heads up to
/// the next lower power of two have its slopes, and the others every other slope of the next higher power.
///
/// It depends on the distance alone, so the fused kernels take one number per distance.
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
}

fn slope(head: usize, heads: usize) -> f64 {
    (-8.0 * head as f64 / heads as f64).exp2()
}

impl PositionBias for Alibi {
    fn relative_bias(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> Option<Tensor<4>> {
        let ahead = 1 - num_keys as i64..num_queries as i64;
        let distance = |ahead: i64| match self.bidirectional {
            true => -ahead.abs() as f64,
            false => ahead as f64,
        };
        let slopes = self.slopes();
        let biases = slopes.iter().flat_map(|slope| {
            let of_distance = move |ahead| slope * distance(ahead);
            ahead.clone().map(of_distance)
        });
        let shape = [1, self.num_heads, 1, num_queries + num_keys - 1];
        let data = TensorData::new(biases.collect::<Vec<f64>>(), shape);
        Some(Tensor::from_data(data, (device, dtype)))
    }
}
