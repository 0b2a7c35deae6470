//! Attention with coverage: a step knows how much each key was attended to before.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::harness::wide::widened;

use super::additive::Filters;
use super::{AttentionState, Start, StatefulAttention, additive, selected, step};
use crate::attention::AttentionOutput;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::normalizer::Normalizer;

/// Configuration of [`CoverageAttention`].
#[derive(Config, Debug)]
pub struct CoverageAttentionConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which query, key and coverage are compared.
    pub num_hiddens: usize,
    /// The coverage of the first step.
    #[config(default = "Start::Zeros")]
    pub start: Start,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl CoverageAttentionConfig {
    /// Attention with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0 or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> CoverageAttention {
        let sizes = [self.query_size, self.key_size, self.num_hiddens];
        let [query, key, value] = additive::linears("CoverageAttentionConfig", sizes, device);
        let coverage = LinearConfig::new(1, self.num_hiddens).with_bias(false);
        CoverageAttention {
            query,
            key,
            value,
            coverage: coverage.init(device),
            start: self.start,
            normalizer: Normalizer::Softmax,
            dropout: DropoutConfig::new(self.dropout).init(),
        }
    }
}

/// Attention with coverage: `e_ij = v . tanh(W_h h_j + W_s s_i + w_c c_ij + b)`, where the coverage `c_i = sum_{t<i}
/// a_t` is the sum of the weights of all earlier steps and `a_i = softmax_j(e_ij)`.
///
/// [`penalty`](StatefulAttention::penalty) is the coverage loss `sum_i sum_j min(a_ij, c_ij)`, summed over the steps so
/// far: attending to the same keys again costs. If the targets of a batch end at different steps, the loss of a step is
/// the difference of the penalties after and before it.
///
/// See, Liu and Manning 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 2.3, equations
/// 10 to 13. In the paper the loss is added with a factor, 1, after training without it.
///
/// ```
/// use attention_core::Mask;
/// use attention_core::stateful::{CoverageAttentionConfig, StatefulAttention};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = CoverageAttentionConfig::new(3, 5, 8).init(&device);
/// let keys = Tensor::<3>::ones([2, 20, 5], &device);
/// let memory = attention.prepare(keys.clone(), keys, Mask::none());
/// let query = || Tensor::<3>::ones([2, 1, 3], &device);
/// let (_, state) = attention.step(query(), &memory, attention.initial_state(&memory));
/// let (_, state) = attention.step(query(), &memory, state);
/// // Equal keys are equally covered, so the second step attends to what the first did.
/// let penalty = attention.penalty(&state).unwrap();
/// let penalty = penalty.try_into_vec_as::<f32>().unwrap();
/// assert!(penalty.iter().all(|loss| (loss - 1.0).abs() < 1e-5));
/// ```
#[derive(Module, Debug)]
pub struct CoverageAttention {
    /// W_s, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// W_h, `[key_size, num_hiddens]`, and b.
    pub key: Linear,
    /// v, `[num_hiddens, 1]`, and the bias of the score, if it has one, which cancels in a softmax.
    pub value: Linear,
    /// w_c, `[1, num_hiddens]`.
    pub coverage: Linear,
    /// The coverage of the first step.
    #[module(skip)]
    pub start: Start,
    /// The function from scores to weights; by default softmax, see [`with_normalizer`](Self::with_normalizer).
    #[module(skip)]
    pub normalizer: Normalizer,
    /// Dropout on the weights that make the context, active in training; the state keeps the weights before dropout.
    pub dropout: Dropout,
}

/// The state of a [`CoverageAttention`]: the coverage of its steps so far, [`Start`] before the first step, and their
/// loss.
#[derive(Clone, Debug)]
pub struct CoverageState {
    /// The sum of the weights of all earlier steps, `[batch, keys]`.
    pub coverage: Tensor<2>,
    /// The coverage loss of all earlier steps, `[batch]`.
    pub loss: Tensor<1>,
    /// Whether no step has been made yet.
    pub is_first: bool,
}

impl AttentionState for CoverageState {
    fn select(&self, indices: Tensor<1, Int>) -> Self {
        Self {
            coverage: selected(&self.coverage, &indices),
            loss: selected(&self.loss, &indices),
            is_first: self.is_first,
        }
    }
}

impl StatefulAttention for CoverageAttention {
    type State = CoverageState;

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        additive::prepare::<Self>(&self.key, keys, values, mask)
    }

    fn initial_state(&self, memory: &Memory) -> CoverageState {
        let coverage = self.start.weights(memory);
        let options = (&coverage.device(), coverage.dtype());
        CoverageState {
            loss: Tensor::zeros([memory.batch_size()], options),
            coverage,
            is_first: true,
        }
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: CoverageState,
    ) -> (AttentionOutput<3>, CoverageState) {
        const NAME: &str = "CoverageAttention";
        let query =
            additive::project_query::<Self>(NAME, &self.query, query, memory, &state.coverage);
        let Some(query) = query else {
            return (step::nothing(memory), state);
        };
        let coverage = widened(state.coverage);
        let (weight, bias) = of_linear(&self.coverage);
        let weight = weight.unsqueeze();
        let filters = Filters { weight, bias };
        let channel = coverage.clone().unsqueeze_dim(1);
        let scores = additive::energies(query, memory, channel, filters, &self.value);
        let weights = self.normalizer.weights(widened(scores), memory.mask());

        let now = step::flat(weights.clone());
        let again = now.clone().min_pair(coverage.clone());
        let next = CoverageState {
            loss: widened(state.loss) + again.sum_dim(1).squeeze_dim(1),
            coverage: self.start.sum(coverage, now, state.is_first),
            is_first: false,
        };
        let used = step::dropped(&self.dropout, weights.clone(), memory);
        (step::pool(weights, used, memory), next)
    }

    fn penalty(&self, state: &CoverageState) -> Option<Tensor<1>> {
        Some(state.loss.clone())
    }
}

impl CoverageAttention {
    /// Replaces softmax by `normalizer`.
    pub fn with_normalizer(self, normalizer: Normalizer) -> Self {
        Self { normalizer, ..self }
    }
}
