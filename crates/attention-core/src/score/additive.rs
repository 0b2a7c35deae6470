//! Additive score.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::ScoringFunction;
use crate::linear::project;
use crate::{Mask, Memory, ops};

/// Configuration of [`AdditiveScore`].
#[derive(Config, Debug)]
pub struct AdditiveScoreConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which the two are compared.
    pub num_hiddens: usize,
}

impl AdditiveScoreConfig {
    /// A score with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> AdditiveScore {
        let sizes = [
            ("query_size", self.query_size),
            ("key_size", self.key_size),
            ("num_hiddens", self.num_hiddens),
        ];
        for (name, size) in sizes {
            assert!(
                size > 0,
                "AdditiveScoreConfig: {name} expected at least 1, got 0"
            );
        }
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        AdditiveScore {
            query: linear(self.query_size, self.num_hiddens),
            key: linear(self.key_size, self.num_hiddens),
            value: linear(self.num_hiddens, 1),
        }
    }
}

/// `a(q, k) = w_v . tanh(W_q q + W_k k)`, for queries and keys of any two sizes.
///
/// Equal to a perceptron with one hidden layer on the concatenation `[q; k]`, without ever concatenating.
///
/// Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", appendix A.1.2.
#[derive(Module, Debug)]
pub struct AdditiveScore {
    /// W_q, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// W_k, `[key_size, num_hiddens]`.
    pub key: Linear,
    /// w_v, `[num_hiddens, 1]`.
    pub value: Linear,
}

impl ScoringFunction for AdditiveScore {
    fn project_queries(&self, queries: Tensor<4>) -> Tensor<4> {
        project(&self.query, queries)
    }

    fn project_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        project(&self.key, keys)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        ops::additive_score(queries, keys, self.weight(), mask)
    }

    fn extend_keys(&self, keys: &Tensor<4>, mask: &Mask, num_queries: usize) -> Option<Tensor<4>> {
        ops::pack_additive_keys(keys.clone(), mask, num_queries)
    }

    fn attend(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
        let pooling = memory.pooling(queries, dropout);
        pooling.additive(self.weight(), memory.extension.clone())
    }
}

impl AdditiveScore {
    /// w_v, `[num_hiddens]`.
    fn weight(&self) -> Tensor<1> {
        let weight = self.value.weight.val();
        let [num_hiddens, _] = weight.dims();
        weight.reshape([num_hiddens])
    }
}
