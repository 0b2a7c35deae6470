//! Monotonic attention: reading on from where the step before stopped.

use burn::config::Config;
use burn::module::{Flag, Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::sigmoid::sigmoid;

use super::expected::expected_alignment;
use super::{AttentionState, StatefulAttention, additive, selected};
use crate::checks::assert_finite;
use crate::parameter::normalized_column;
use crate::{AttentionOutput, Mask, Memory, functional};

/// Configuration of [`MonotonicAttention`].
#[derive(Config, Debug)]
pub struct MonotonicAttentionConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which the two are compared.
    pub num_hiddens: usize,
    /// The first value of r. Negative: a new model must let through enough to attend beyond the first keys, the more of
    /// them the longer the input.
    #[config(default = "-4.0")]
    pub offset: f64,
    /// The standard deviation of the noise on energies while training: it drives probabilities to 0 and 1, where
    /// soft and hard steps agree.
    #[config(default = 1.0)]
    pub noise: f64,
}

impl MonotonicAttentionConfig {
    /// Attention with new random parameters on `device`; g starts at `1 / sqrt(num_hiddens)`.
    ///
    /// # Panics
    /// If a size is 0, `offset` is not finite, or `noise` is negative or not finite.
    pub fn init(&self, device: &Device) -> MonotonicAttention {
        const NAME: &str = "MonotonicAttentionConfig";
        let sizes = [self.query_size, self.key_size, self.num_hiddens];
        let [query, key, value] = additive::linears(NAME, sizes, device);
        let (offset, noise) = (self.offset, self.noise);
        assert_finite(NAME, "offset", offset);
        assert!(
            noise.is_finite() && noise >= 0.0,
            "{NAME}: noise expected a finite number of at least 0, got {noise}"
        );
        let number = |number: f64| Param::from_tensor(Tensor::full([1], number, device));
        MonotonicAttention {
            query,
            key,
            value,
            gain: number(1.0 / (self.num_hiddens as f64).sqrt()),
            offset: number(offset),
            noise,
            training: Param::from_bool(true),
        }
    }
}

/// Monotonic attention: each step walks over the keys, beginning with the one where the step before stopped, and stops
/// at key `j` with probability `p_ij = sigmoid(e_ij)`, `e_ij = g v/|v| . tanh(W s_i + V h_j + b) + r`.
///
/// - [`step_soft`](Self::step_soft) takes the expectation over all walks, [`expected_alignment`], which has gradients.
/// - [`step_hard`](Self::step_hard) stops at the first key with `p_ij >= 1/2`. It scores all keys at once, which suits
///   a device better than the paper's walk that scores no key twice.
///
/// [`StatefulAttention::step`] is soft while the module trains, on a training device, and hard otherwise, as dropout is
/// active or not. A masked key is walked over. A walk that passes the last key stops nowhere: its share of the weights,
/// which then sum to less than 1, is gone for all steps that follow (in hard steps all of it: weights and contexts are
/// 0).
///
/// Raffel, Luong, Liu, Weiss and Eck 2017, "Online and Linear-Time Attention by Enforcing Monotonic Alignments",
/// sections 2.2 to 2.5.
///
/// ```
/// use attention_core::{StatefulAttention, Mask, MonotonicAttentionConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// // Every key is good enough, so each step stops where the one before did.
/// let attention = MonotonicAttentionConfig::new(3, 5, 8).with_offset(10.0).init(&device);
/// let keys = Tensor::<3>::ones([1, 4, 5], &device);
/// let memory = attention.setup(keys.clone(), keys, Mask::none());
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
pub struct MonotonicAttention {
    /// W, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// V, `[key_size, num_hiddens]`, and b.
    pub key: Linear,
    /// v, `[num_hiddens, 1]`; only its direction counts.
    pub value: Linear,
    /// g, `[1]`.
    pub gain: Param<Tensor<1>>,
    /// r, `[1]`.
    pub offset: Param<Tensor<1>>,
    /// The standard deviation of the noise on energies while training.
    pub noise: f64,
    /// Whether to behave as during training. Cleared by [`freeze`](burn::module::Module::freeze).
    pub training: Param<Flag>,
}

/// Where the step of a [`MonotonicAttention`] before stopped. Before the first step, at the first key.
#[derive(Clone, Debug)]
pub struct MonotonicState {
    /// The weights of the step before, `[batch, keys]`.
    pub previous: Tensor<2>,
}

impl AttentionState for MonotonicState {
    fn select(&self, indices: Tensor<1, Int>) -> Self {
        Self {
            previous: selected(&self.previous, &indices),
        }
    }
}

impl StatefulAttention for MonotonicAttention {
    type State = MonotonicState;

    fn setup(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        additive::setup::<Self>(&self.key, keys, values, mask)
    }

    fn initial_state(&self, memory: &Memory) -> MonotonicState {
        let zeros = additive::per_key(memory, 0.0);
        let [batch, num_keys] = zeros.dims();
        if batch * num_keys == 0 {
            return MonotonicState { previous: zeros };
        }
        let first = zeros.clone().narrow(1, 0, 1) + 1.0;
        let previous = if num_keys == 1 {
            first
        } else {
            Tensor::cat(vec![first, zeros.narrow(1, 1, num_keys - 1)], 1)
        };
        MonotonicState { previous }
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
    ) -> (AttentionOutput<3>, MonotonicState) {
        if self.trains_on(&query) {
            self.step_soft(query, memory, state)
        } else {
            self.step_hard(query, memory, state)
        }
    }
}

impl MonotonicAttention {
    /// A step in expectation; with noise while the module trains, on a training device.
    ///
    /// Shapes and panics as for [`StatefulAttention::step_with_weights`].
    pub fn step_soft(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
    ) -> (AttentionOutput<3>, MonotonicState) {
        let is_noisy = self.noise > 0.0 && self.trains_on(&query);
        self.walk(query, memory, state, |mut energies| {
            if is_noisy {
                let noise = energies.random_like(Distribution::Normal(0.0, self.noise));
                energies = energies + noise;
            }
            functional::fill_masked(sigmoid(energies), memory.mask(), 0.0)
        })
    }

    /// A step to the first key, from that of the step before on, whose probability is at least 1/2: its weight is 1,
    /// and there are no gradients but those of the values. After soft steps, the weights so far are carried on.
    ///
    /// Shapes and panics as for [`StatefulAttention::step_with_weights`].
    pub fn step_hard(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
    ) -> (AttentionOutput<3>, MonotonicState) {
        self.walk(query, memory, state, |energies| {
            let stops = energies.clone().greater_equal_elem(0.0);
            let stops = energies.zeros_like().mask_fill(stops, 1.0);
            functional::fill_masked(stops, memory.mask(), 0.0)
        })
    }

    /// A step whose probabilities `choose` makes of the energies, `[batch, 1, 1, keys]`.
    fn walk(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: MonotonicState,
        choose: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> (AttentionOutput<3>, MonotonicState) {
        const NAME: &str = "MonotonicAttention";
        let query =
            additive::project_query::<Self>(NAME, &self.query, query, memory, &state.previous);
        let Some(query) = query else {
            return (additive::nothing(memory), state);
        };
        let weight = normalized_column(&self.value, &self.gain);
        let energies = functional::additive_score(query, memory.keys(), weight, memory.mask())
            + value(&self.offset).reshape([1, 1, 1, 1]);
        let choose = choose(energies);
        let shape = choose.dims();
        let next = expected_alignment(additive::flat(choose), state.previous);
        let weights = next.clone().reshape(shape);
        let output = additive::pool(weights.clone(), weights, memory);
        (output, MonotonicState { previous: next })
    }

    fn trains_on(&self, query: &Tensor<3>) -> bool {
        self.training.is_enabled() && query.device().is_autodiff()
    }
}
