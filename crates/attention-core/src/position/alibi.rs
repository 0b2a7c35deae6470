//! Attention with linear biases.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::PositionBias;

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
        assert!(
            self.num_heads > 0,
            "AlibiConfig: num_heads expected at least 1, got 0"
        );
        Alibi {
            num_heads: self.num_heads,
            bidirectional: self.bidirectional,
        }
    }
}

/// `bias(i, j) = -slope_h (position_i - j)`: the farther back a key, the lower its score, at another rate in each head.
/// Nothing is learned, and nothing limits the length.
///
/// Head `h` of `n`, counted from 1, has the slope `2^(-8 h / n)` where `n` is a power of two. Otherwise the heads up to the
/// next lower power of two have its slopes, and the rest every other slope of the next higher one.
///
/// Within a row the bias is `slope_h j` plus a constant, so that with softmax it goes through the streaming kernel as a bias
/// per key, unless it is bidirectional. There a score is rounded as a number of the size of `slope_h keys` is; half precision
/// could not bear that, and adds the bias of each pair.
///
/// Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", section 3.
#[derive(Module, Debug)]
pub struct Alibi {
    num_heads: usize,
    bidirectional: bool,
}

impl Alibi {
    /// The slope of each head.
    pub fn slopes(&self) -> Vec<f64> {
        let geometric = |heads: usize| (1..=heads).map(move |head| slope(head, heads));
        let power = match self.num_heads.is_power_of_two() {
            true => self.num_heads,
            false => self.num_heads.next_power_of_two() / 2,
        };
        geometric(power)
            .chain(geometric(2 * power).step_by(2))
            .take(self.num_heads)
            .collect()
    }

    /// The slopes, `[1, heads, 1, 1]`, times distances.
    fn times_slopes(&self, distances: Tensor<4>, dtype: DType) -> Tensor<4> {
        let data = TensorData::new(self.slopes(), [1, self.num_heads, 1, 1]);
        let slopes = Tensor::<4>::from_data(data, (&distances.device(), distances.dtype()));
        (distances * slopes).cast(dtype)
    }
}

fn slope(head: usize, heads: usize) -> f64 {
    (-8.0 * head as f64 / heads as f64).exp2()
}

/// `from .. from + number`, in a type that holds them all.
fn positions(from: i64, number: usize, device: &Device, dtype: DType) -> Tensor<1> {
    let wide = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let positions = Tensor::<1, Int>::arange(from..from + number as i64, device);
    positions.float().cast(wide)
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
        let ahead = match self.bidirectional {
            true => -ahead.abs(),
            false => ahead,
        };
        self.times_slopes(ahead, dtype)
    }

    fn key_bias(&self, num_keys: usize, device: &Device, dtype: DType) -> Option<Tensor<4>> {
        // Counted from the last key: the numbers that matter most are the smallest, and exact.
        let from_last = || positions(1 - num_keys as i64, num_keys, device, dtype);
        let precise = matches!(dtype, DType::F32 | DType::F64);
        (precise && !self.bidirectional)
            .then(|| self.times_slopes(from_last().reshape([1, 1, 1, num_keys]), dtype))
    }
}
