//! Monotonic attention: each step reads on from where the previous one stopped.

use burn::config::Config;
use burn::module::{Flag, Module, Param};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_fused_layers::harness::checks::assert_finite;
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::sigmoid::sigmoid;
use burn_fused_layers::harness::wide::widened;

use super::expected::expected_alignment;
use super::{AttentionState, StatefulAttention, selected, step};
use crate::attention::AttentionOutput;
use crate::functional;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::position::Positions;
use crate::score::{AdditiveScore, AdditiveScoreConfig, ScoreKernel, ScoringFunction};

const NAME: &str = "MonotonicAttention";

/// Configuration of [`MonotonicAttention`].
#[derive(Config, Debug)]
pub struct MonotonicAttentionConfig {
    /// The initial value of r. It is negative: a new model must let enough walks pass to attend beyond the first keys,
    /// and more of them the longer the input. `score_bias_init` in TensorFlow Addons, where the default is 0.
    #[config(default = "-4.0")]
    pub offset: f64,
    /// The standard deviation of the noise on energies in training, which drives probabilities to 0 and 1, where soft
    /// and hard steps agree. `sigmoid_noise` in TensorFlow Addons, where the default is 0.
    #[config(default = 1.0)]
    pub noise: f64,
}

impl MonotonicAttentionConfig {
    /// Attention with the paper's score, which is additive and [normalised](AdditiveScoreConfig::normalize):
    /// `g v/|v| . tanh(W s_i + V h_j + b)`, with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0, `offset` is not finite, or `noise` is negative or not finite.
    pub fn init_additive(
        &self,
        query_size: usize,
        key_size: usize,
        num_hiddens: usize,
        device: &Device,
    ) -> MonotonicAttention<AdditiveScore> {
        let score = AdditiveScoreConfig::new(query_size, key_size, num_hiddens);
        self.init_with(score.with_normalize(true).init(device), device)
    }

    /// Attention around any `score`, which should be on the same device.
    ///
    /// # Panics
    /// If `offset` is not finite, or `noise` is negative or not finite.
    pub fn init_with<S: ScoringFunction>(
        &self,
        score: S,
        device: &Device,
    ) -> MonotonicAttention<S> {
        const NAME: &str = "MonotonicAttentionConfig";
        let (offset, noise) = (self.offset, self.noise);
        assert_finite(NAME, "offset", offset);
        assert!(
            noise.is_finite() && noise >= 0.0,
            "{NAME}: noise expected a finite number of at least 0, got {noise}"
        );
        MonotonicAttention {
            score,
            offset: Param::from_tensor(Tensor::full([1], offset, device)),
            noise,
            training: Param::from_bool(true),
        }
    }
}

/// Monotonic attention: each step walks over the keys, beginning at the key where the previous step stopped, and stops
/// at key `j` with probability `p_ij = sigmoid(e_ij)`, `e_ij = score(s_i, h_j) + r`, for any scoring function.
///
/// - [`step_soft`](Self::step_soft) takes the expectation over all walks, [`expected_alignment`], which has gradients.
/// - [`step_hard`](Self::step_hard) stops at the first key with `p_ij >= 1/2`. It scores all keys at once, which suits
///   a device better than the paper's walk, which scores no key twice.
///
/// [`StatefulAttention::step`] is soft in training, when query, memory, state or a parameter is on a training device,
/// and hard otherwise, like dropout. A masked key is walked over. A walk that passes the last key stops nowhere: its
/// part of the weights, which then sum to less than 1, is lost for all later steps (in hard steps everything: weights
/// and contexts are 0).
///
/// Raffel, Luong, Liu, Weiss and Eck 2017, "Online and Linear-Time Attention by Enforcing Monotonic Alignments",
/// sections 2.2 to 2.5.
///
/// TensorFlow Addons' `BahdanauMonotonicAttention(normalize=True)` corresponds to
/// [`init_additive`](MonotonicAttentionConfig::init_additive), without `normalize` to an [`AdditiveScore`], and
/// `LuongMonotonicAttention` to a [`BilinearScore`](crate::score::BilinearScore) whose matrix is the layer of the
/// memory. Its mode `recursive` computes the same expectation as `step_soft`. `parallel`, its default, loses weight
/// after a key whose probability rounds to 1, because its divisor is clamped. `hard` is `step_hard`, except that it
/// walks on at a probability of exactly 1/2.
///
/// ```
/// use attention_core::Mask;
/// use attention_core::score::BilinearScoreConfig;
/// use attention_core::stateful::{MonotonicAttentionConfig, StatefulAttention};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let config = MonotonicAttentionConfig::new().with_offset(10.0);
/// // The paper's score: queries of 3, keys of 5, 8 hidden units. Any other goes by `init_with`.
/// let attention = config.init_additive(3, 5, 8, &device);
/// let bilinear = config.init_with(BilinearScoreConfig::new(3, 5).init(&device), &device);
/// assert_eq!(bilinear.score.query.weight.dims(), [3, 5]);
///
/// // Every key is good enough, so each step stops where the one before did.
/// let keys = Tensor::<3>::ones([1, 4, 5], &device);
/// let memory = attention.prepare(keys.clone(), keys, Mask::none());
/// let mut state = attention.initial_state(&memory);
/// for _ in 0..2 {
///     let query = Tensor::<3>::ones([1, 1, 3], &device);
///     let (output, next) = attention.step_with_weights(query, &memory, state);
///     let weights = output.weights.try_into_vec_as::<f32>().unwrap();
///     assert_eq!(weights, [1.0, 0.0, 0.0, 0.0]);
///     state = next;
/// }
/// ```
#[derive(Module, Debug)]
pub struct MonotonicAttention<S: ScoringFunction> {
    /// The scoring function, with its parameters.
    pub score: S,
    /// r, `[1]`.
    pub offset: Param<Tensor<1>>,
    /// The standard deviation of the noise on energies in training.
    pub noise: f64,
    /// Whether to behave as in training. Cleared by [`freeze`](burn::module::Module::freeze).
    pub training: Param<Flag>,
}

/// The key where the previous step of a [`MonotonicAttention`] stopped. Before the first step, it is the first unmasked
/// key.
#[derive(Clone, Debug)]
pub struct MonotonicState {
    /// The weights of the step before, `[batch, keys]`.
    pub previous: Tensor<2>,
}

impl AttentionState for MonotonicState {
    fn select(&self, indices: Tensor<1, Int>) -> Self {
        let previous = selected(&self.previous, &indices);
        Self { previous }
    }
}

impl<S: ScoringFunction> StatefulAttention for MonotonicAttention<S> {
    type State = MonotonicState;

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        step::prepare::<Self>(keys, values, mask, |keys| {
            // A score need not be able to project absent keys.
            let [batch, _, num_keys, _] = keys.dims();
            if batch * num_keys == 0 {
                keys
            } else {
                self.score.project_keys(keys, &Positions::consecutive(0))
            }
        })
    }

    fn initial_state(&self, memory: &Memory) -> MonotonicState {
        let previous = step::on_first_key(memory, 0.0);
        MonotonicState { previous }
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
    ) -> (AttentionOutput<3>, MonotonicState) {
        self.walk(query, memory, state, |energies, trains| {
            if trains {
                self.soft(energies, memory, trains)
            } else {
                hard(energies, memory)
            }
        })
    }
}

impl<S: ScoringFunction> MonotonicAttention<S> {
    /// A step in expectation, with noise in training.
    ///
    /// Shapes and panics as for [`StatefulAttention::step_with_weights`].
    pub fn step_soft(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
    ) -> (AttentionOutput<3>, MonotonicState) {
        self.walk(query, memory, state, |energies, trains| {
            self.soft(energies, memory, trains)
        })
    }

    /// A step to the first key whose probability is at least 1/2, searched from the key of the previous step on: its
    /// weight is 1, and only values have gradients. After soft steps, it continues from their weights.
    ///
    /// Shapes and panics as for [`StatefulAttention::step_with_weights`].
    pub fn step_hard(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
    ) -> (AttentionOutput<3>, MonotonicState) {
        self.walk(query, memory, state, |energies, _| hard(energies, memory))
    }

    /// The probabilities of a soft step, `[batch, 1, 1, keys]`.
    fn soft(&self, mut energies: Tensor<4>, memory: &Memory, trains: bool) -> Tensor<4> {
        if trains && self.noise > 0.0 {
            let noise = energies.random_like(Distribution::Normal(0.0, self.noise));
            energies = energies + noise;
        }
        functional::fill_masked(sigmoid(energies), memory.mask(), 0.0)
    }

    /// A step with probabilities `[batch, 1, 1, keys]` that `choose` computes from the energies and from whether the
    /// module trains, that is, one of the step's tensors is on a training device.
    fn walk(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
        choose: impl FnOnce(Tensor<4>, bool) -> Tensor<4>,
    ) -> (AttentionOutput<3>, MonotonicState) {
        let Some(energies) = self.energies(query, memory, &state.previous) else {
            return (step::nothing(memory), state);
        };
        let [keys, values] = memory.rows.devices();
        let mut devices = [energies.device(), state.previous.device(), keys, values].into_iter();
        let trains = self.training.is_enabled() && devices.any(|device| device.is_autodiff());
        let choose = choose(energies, trains);
        let shape = choose.dims();
        let next = expected_alignment(step::flat(choose), widened(state.previous));
        let weights = next.clone().reshape(shape);
        let output = step::pool(weights.clone(), weights, memory);
        (output, MonotonicState { previous: next })
    }

    /// `e_ij` of one query, `[batch, 1, 1, keys]`, or `None` without examples or without keys.
    fn energies(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        previous: &Tensor<2>,
    ) -> Option<Tensor<4>> {
        let query = step::query::<Self>(NAME, query, memory, previous)?;
        let last = Positions::consecutive(memory.num_keys() as i64 - 1);
        let query = self.score.project_queries(query, &last);
        let keys = memory.rows.read_cleared_keys().into_tensor();
        let kernel = self.score.kernel();
        let ([.., size], [batch, _, num_keys, key_size]) = (query.dims(), keys.dims());
        assert!(
            size == key_size || matches!(kernel, ScoreKernel::Custom),
            "{NAME}: memory expected with keys [{batch}, 1, {num_keys}, {size}], as projected queries are, got {:?}",
            keys.dims()
        );
        // For half precision, products are f32, as in `Attention`.
        let [query, keys] = match kernel {
            ScoreKernel::Dot { .. } => [query, keys].map(widened),
            _ => [query, keys],
        };
        let scores = widened(self.score.score(query, keys, memory.mask()));
        let offset = value(&self.offset).cast(scores.dtype());
        Some(scores + offset.reshape([1, 1, 1, 1]))
    }
}

/// The probabilities of a hard step, 0 or 1, `[batch, 1, 1, keys]`.
fn hard(energies: Tensor<4>, memory: &Memory) -> Tensor<4> {
    let stops = energies.clone().greater_equal_elem(0.0);
    let stops = energies.zeros_like().mask_fill(stops, 1.0);
    functional::fill_masked(stops, memory.mask(), 0.0)
}
