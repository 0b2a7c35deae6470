//! Concat score.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::linear_of;

use super::{ScoreKernel, ScoringFunction, assert_sizes};
use crate::parameter::column;
use crate::position::Positions;

/// Configuration of [`ConcatScore`].
#[derive(Config, Debug)]
pub struct ConcatScoreConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which queries and keys are compared.
    pub num_hiddens: usize,
    /// Whether the hidden layer has a bias; in the paper it has none.
    #[config(default = false)]
    pub bias: bool,
}

impl ConcatScoreConfig {
    /// A score with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> ConcatScore {
        let sizes = [self.query_size, self.key_size, self.num_hiddens];
        assert_sizes("ConcatScoreConfig", sizes);
        let hidden = LinearConfig::new(self.query_size + self.key_size, self.num_hiddens);
        let value = LinearConfig::new(self.num_hiddens, 1);
        ConcatScore {
            hidden: hidden.with_bias(self.bias).init(device),
            value: value.with_bias(false).init(device),
            query_size: self.query_size,
        }
    }
}

/// `a(q, k) = v . tanh(W [q; k])`, a perceptron with one hidden layer on the concatenation of query and key.
///
/// It is computed as `v . tanh(W_q q + W_k k)` with the two parts of W, in the kernels of
/// [`AdditiveScore`](crate::AdditiveScore): no pair is concatenated. The two scores differ in how their parameters are
/// stored, initialized, and loaded from other programs.
///
/// Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1, "concat".
///
/// PyTorch equivalent: `v(torch.tanh(hidden(torch.cat([q, k], -1))))`.
///
/// ```
/// use attention_core::{Attention, Mask};
/// use attention_core::score::ConcatScoreConfig;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = Attention::new(ConcatScoreConfig::new(3, 5, 8).init(&device), 0.0);
/// let queries = Tensor::<3>::ones([1, 2, 3], &device);
/// let keys = Tensor::<3>::ones([1, 7, 5], &device);
/// let context = attention.forward(queries, keys.clone(), keys, &Mask::none());
/// assert_eq!(context.dims(), [1, 2, 5]);
/// ```
#[derive(Module, Debug)]
pub struct ConcatScore {
    /// W, `[query_size + key_size, num_hiddens]`, the rows of the query first, and its bias, if it has one.
    pub hidden: Linear,
    /// v, `[num_hiddens, 1]`.
    pub value: Linear,
    query_size: usize,
}

impl ScoringFunction for ConcatScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        let bias = self.hidden.bias.as_ref().map(value);
        linear_of("queries", (self.weights(0, self.query_size), bias), queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        let [both, _] = self.hidden.weight.dims();
        let size = both - self.query_size;
        linear_of("keys", (self.weights(self.query_size, size), None), keys)
    }

    fn kernel(&self) -> ScoreKernel {
        let weight = column(&self.value);
        ScoreKernel::Additive { weight }
    }
}

impl ConcatScore {
    /// The part of W that multiplies the query or the key.
    fn weights(&self, start: usize, size: usize) -> Tensor<2> {
        value(&self.hidden.weight).narrow(0, start, size)
    }
}
