//! Relative position bias in buckets.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::value;

use super::PositionBias;

/// Configuration of [`RelativePositionBias`].
#[derive(Config, Debug)]
pub struct RelativePositionBiasConfig {
    /// The number of heads; each learns a bias of its own.
    pub num_heads: usize,
    /// The number of buckets.
    #[config(default = 32)]
    pub num_buckets: usize,
    /// The distance from which on all keys share a bucket.
    #[config(default = 128)]
    pub max_distance: usize,
    /// Whether half of the buckets are for keys after the query, as in an encoder; otherwise such keys count as the
    /// query's own position, and a causal mask is expected to hide them.
    #[config(default = true)]
    pub bidirectional: bool,
}

impl RelativePositionBiasConfig {
    /// A bias with new random parameters on `device`.
    ///
    /// # Panics
    /// If there are no heads, fewer than 2 buckets per direction, an odd number of buckets for two directions, or
    /// `max_distance` is at most the number of distances with a bucket of their own (half of a direction's buckets).
    pub fn init(&self, device: &Device) -> RelativePositionBias {
        const NAME: &str = "RelativePositionBiasConfig";
        assert_positive(NAME, &[("num_heads", self.num_heads)]);
        let (expected, fits) = if self.bidirectional {
            let is_even = self.num_buckets.is_multiple_of(2);
            ("an even number, at least 4", is_even)
        } else {
            ("at least 2", true)
        };
        let bias = RelativePositionBias {
            embedding: EmbeddingConfig::new(self.num_buckets, self.num_heads).init(device),
            max_distance: self.max_distance,
            bidirectional: self.bidirectional,
        };
        assert!(
            fits && bias.exact() > 0,
            "{NAME}: num_buckets expected {expected}, got {}",
            self.num_buckets
        );
        assert!(
            self.max_distance > bias.exact(),
            "{NAME}: max_distance expected above {}, got {}",
            bias.exact(),
            self.max_distance
        );
        bias
    }
}

/// `bias(i, j) = embedding[bucket(j - position_i), head]`, learned.
///
/// With `n` buckets for a direction, each distance below `n / 2` has a bucket of its own; larger ones share the
/// remaining buckets, which widen logarithmically up to `max_distance`.
///
/// Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section
/// 2.1.
///
/// PyTorch equivalent: `relative_attention_bias` of the first layer of `transformers`' T5, whose weight has the same
/// layout. (T5 does not scale its dot product: `DotProductScoreConfig::new().with_scale(Some(1.0))`.)
#[derive(Module, Debug)]
pub struct RelativePositionBias {
    /// `[num_buckets, heads]`
    pub embedding: Embedding,
    max_distance: usize,
    bidirectional: bool,
}

impl RelativePositionBias {
    /// The bucket of a key `ahead` positions after the query, negative for one before it.
    pub fn bucket(&self, ahead: i64) -> usize {
        let (directed, exact) = (self.directed(), self.exact());
        let is_after = ahead > 0;
        let (distance, first) = match (self.bidirectional, is_after) {
            (true, true) => (ahead.unsigned_abs() as usize, directed),
            (false, true) => (0, 0),
            (_, false) => (ahead.unsigned_abs() as usize, 0),
        };
        if distance < exact {
            return first + distance;
        }
        // In f32, in which the published weights were trained, so that a distance on the edge of a bucket falls on the
        // same side.
        let exact_f32 = exact as f32;
        let share = (distance as f32 / exact_f32).ln()
            / (self.max_distance as f64 / exact as f64).ln() as f32;
        let shared = exact + (share * (directed - exact) as f32) as usize;
        first + shared.min(directed - 1)
    }

    /// The number of buckets of one direction.
    fn directed(&self) -> usize {
        let [num_buckets, _] = self.embedding.weight.dims();
        num_buckets / if self.bidirectional { 2 } else { 1 }
    }

    /// The number of distances with a bucket of their own.
    fn exact(&self) -> usize {
        self.directed() / 2
    }
}

impl PositionBias for RelativePositionBias {
    fn relative_bias(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> Option<Tensor<4>> {
        let embedding = value(&self.embedding.weight);
        assert!(
            embedding.device() == *device,
            "RelativePositionBias: embedding expected on {device:?}, as the scores, got {:?}",
            embedding.device()
        );
        let ahead = 1 - num_keys as i64..num_queries as i64;
        let buckets: Vec<i64> = ahead.map(|ahead| self.bucket(ahead) as i64).collect();
        let distances = buckets.len();
        let buckets = TensorData::new(buckets, [distances]);
        let buckets = Tensor::<1, Int>::from_data(buckets, device);
        let of_heads = embedding.select(0, buckets).transpose();
        let [heads, _] = of_heads.dims();
        Some(of_heads.reshape([1, heads, 1, distances]).cast(dtype))
    }
}
