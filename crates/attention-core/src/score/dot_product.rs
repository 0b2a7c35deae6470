//! Scaled dot-product score.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;

use super::ScoringFunction;
use crate::ops::{self, AttentionOptions};
use crate::{Mask, Memory};

/// Configuration of [`DotProductScore`].
#[derive(Config, Debug)]
pub struct DotProductScoreConfig {
    /// The factor on the dot product; by default `1 / sqrt(query_size)`.
    #[config(default = "None")]
    pub scale: Option<f64>,
}

impl DotProductScoreConfig {
    /// The score; it has no parameters.
    ///
    /// # Panics
    /// If `scale` is not finite.
    pub fn init(&self) -> DotProductScore {
        if let Some(scale) = self.scale {
            assert!(
                scale.is_finite(),
                "DotProductScoreConfig: scale expected a finite number, got {scale}"
            );
        }
        DotProductScore { scale: self.scale }
    }
}

/// `a(q, k) = q . k / sqrt(query_size)`, for queries and keys of one size.
///
/// The scale keeps the variance of the score at one, whatever the size.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
#[derive(Module, Debug)]
pub struct DotProductScore {
    scale: Option<f64>,
}

impl DotProductScore {
    fn scale(&self, queries: &Tensor<4>) -> f64 {
        let [_, _, _, size] = queries.dims();
        self.scale.unwrap_or(1.0 / (size.max(1) as f64).sqrt())
    }
}

impl ScoringFunction for DotProductScore {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let scale = self.scale(&queries);
        ops::dot_product_score(queries, keys, mask, scale)
    }

    fn attend(
        &self,
        queries: Tensor<4>,
        keys: Tensor<4>,
        values: Tensor<4>,
        mask: &Mask,
        dropout: f64,
    ) -> Tensor<4> {
        let scale = self.scale(&queries);
        let options = AttentionOptions { scale, dropout };
        ops::attention(queries, keys, values, mask, options)
    }

    fn attend_memory(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
        let scale = self.scale(&queries);
        memory.pooling(queries, dropout).attention(None, scale)
    }
}
