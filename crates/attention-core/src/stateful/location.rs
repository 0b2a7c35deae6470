//! Location-sensitive attention: a step knows what earlier steps attended to.

use burn::config::Config;
use burn::module::Module;
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig1d};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::{of_linear, value};
use burn_fused_layers::harness::wide::widened;
use burn_fused_layers::linear;

use super::additive::Filters;
use super::{AttentionState, Start, StatefulAttention, additive, selected, step};
use crate::attention::AttentionOutput;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::normalizer::Normalizer;

/// The weights of earlier steps that the filters of [`LocationAttention`] run over.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum LocationFeatures {
    /// The weights of the previous step (Chorowski et al. 2015).
    Previous,
    /// The sum over all earlier steps (Shen et al. 2018, "Natural TTS Synthesis by Conditioning WaveNet on Mel
    /// Spectrogram Predictions", Tacotron 2, section 2.2).
    Cumulative,
    /// Both, as two channels, in this order, as in implementations of Tacotron 2.
    Both,
}

/// Configuration of [`LocationAttention`].
#[derive(Config, Debug)]
pub struct LocationAttentionConfig {
    /// The size of a query.
    pub query_size: usize,
    /// The size of a key; it may differ from `query_size`.
    pub key_size: usize,
    /// The number of hidden units in which query, key and location are compared.
    pub num_hiddens: usize,
    /// The number of filters.
    #[config(default = 10)]
    pub filters: usize,
    /// The number of neighbouring keys under a filter; odd, so that it has a middle. 31 as in Tacotron 2.
    #[config(default = 31)]
    pub kernel_size: usize,
    /// The weights that the filters run over.
    #[config(default = "LocationFeatures::Previous")]
    pub features: LocationFeatures,
    /// The weights that the first step uses as those of earlier steps.
    #[config(default = "Start::Zeros")]
    pub start: Start,
    /// The probability to drop a weight while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl LocationAttentionConfig {
    /// Attention with new random parameters on `device`.
    ///
    /// # Panics
    /// If a size is 0, `kernel_size` is even or `dropout` is not in `[0, 1)`.
    pub fn init(&self, device: &Device) -> LocationAttention {
        const NAME: &str = "LocationAttentionConfig";
        let sizes = [self.query_size, self.key_size, self.num_hiddens];
        let [query, key, value] = additive::linears(NAME, sizes, device);
        assert_positive(NAME, &[("filters", self.filters)]);
        assert!(
            self.kernel_size % 2 == 1,
            "{NAME}: kernel_size expected odd, got {}",
            self.kernel_size
        );
        let channels = match self.features {
            LocationFeatures::Both => 2,
            _ => 1,
        };
        let half = self.kernel_size / 2;
        let location = LinearConfig::new(self.filters, self.num_hiddens).with_bias(false);
        LocationAttention {
            query,
            key,
            value,
            filters: Conv1dConfig::new(channels, self.filters, self.kernel_size)
                .with_padding(PaddingConfig1d::Explicit(half, half))
                .with_bias(false)
                .init(device),
            location: location.init(device),
            features: self.features,
            start: self.start,
            normalizer: Normalizer::Softmax,
            dropout: DropoutConfig::new(self.dropout).init(),
        }
    }
}

/// Location-sensitive attention: `e_ij = w . tanh(W s_i + V h_j + U f_ij + b)` with `f_i = F * a_{i-1}`, filters over
/// the weights of the previous step, and `a_i = softmax_j(e_ij)`.
///
/// Where content repeats, the previous step tells which repetition is meant: a filter that shifts its weights by one
/// key is enough to read in order, however long the input.
///
/// Chorowski et al. 2015, "Attention-Based Models for Speech Recognition", section 2.2.
///
/// PyTorch equivalent of `F`: `torch.nn.Conv1d(channels, filters, kernel_size, padding="same", bias=False)`.
///
/// ```
/// use attention_core::Mask;
/// use attention_core::stateful::{LocationAttentionConfig, StatefulAttention};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = LocationAttentionConfig::new(3, 5, 8).with_kernel_size(7).init(&device);
/// let keys = Tensor::<3>::ones([1, 20, 5], &device);
/// let memory = attention.prepare(keys.clone(), keys, Mask::none());
/// let mut state = attention.initial_state(&memory);
/// for _ in 0..4 {
///     let query = Tensor::<3>::ones([1, 1, 3], &device);
///     let (context, next) = attention.step(query, &memory, state);
///     assert_eq!(context.dims(), [1, 1, 5]);
///     state = next;
/// }
/// ```
#[derive(Module, Debug)]
pub struct LocationAttention {
    /// W, `[query_size, num_hiddens]`.
    pub query: Linear,
    /// V, `[key_size, num_hiddens]`, and b.
    pub key: Linear,
    /// w, `[num_hiddens, 1]`, and the bias of the score, if it has one, which cancels in a softmax.
    pub value: Linear,
    /// F, `[filters, channels, kernel_size]`.
    pub filters: Conv1d,
    /// U, `[filters, num_hiddens]`.
    pub location: Linear,
    /// The weights that the filters run over.
    #[module(skip)]
    pub features: LocationFeatures,
    /// The weights that the first step uses as those of earlier steps.
    #[module(skip)]
    pub start: Start,
    /// The function from scores to weights; by default softmax, see [`with_normalizer`](Self::with_normalizer).
    #[module(skip)]
    pub normalizer: Normalizer,
    /// Dropout on the weights that make the context, active in training; the state keeps the weights before dropout.
    pub dropout: Dropout,
}

/// The state of a [`LocationAttention`]: the weights of its steps so far; before the first step, its [`Start`].
#[derive(Clone, Debug)]
pub struct LocationState {
    /// The weights of the previous step, `[batch, keys]`.
    pub previous: Tensor<2>,
    /// The sum of the weights of all earlier steps, `[batch, keys]`.
    pub cumulative: Tensor<2>,
    /// Whether no step has been made yet.
    pub is_first: bool,
}

impl AttentionState for LocationState {
    fn select(&self, indices: Tensor<1, Int>) -> Self {
        Self {
            previous: selected(&self.previous, &indices),
            cumulative: selected(&self.cumulative, &indices),
            is_first: self.is_first,
        }
    }

    fn with_weights(mut self, weights: &Tensor<2>) -> Self {
        self.previous = weights.clone();
        self
    }
}

impl StatefulAttention for LocationAttention {
    type State = LocationState;

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        additive::prepare::<Self>(&self.key, keys, values, mask)
    }

    fn initial_state(&self, memory: &Memory) -> LocationState {
        let start = self.start.weights(memory);
        LocationState {
            previous: start.clone(),
            cumulative: start,
            is_first: true,
        }
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: LocationState,
    ) -> (AttentionOutput<3>, LocationState) {
        const NAME: &str = "LocationAttention";
        let query =
            additive::project_query::<Self>(NAME, &self.query, query, memory, &state.previous);
        let Some(query) = query else {
            return (step::nothing(memory), state);
        };
        let channels = self.channels(&state);
        let scores = additive::energies(query, memory, channels, self.filters(), &self.value);
        let weights = self.normalizer.weights(widened(scores), memory.mask());
        let now = step::flat(weights.clone());
        let next = LocationState {
            previous: now.clone(),
            cumulative: (self.start).sum(widened(state.cumulative), now, state.is_first),
            is_first: false,
        };
        let used = step::dropped(&self.dropout, weights.clone(), memory);
        (step::pool(weights, used, memory), next)
    }
}

impl LocationAttention {
    /// Replaces softmax by `normalizer`.
    pub fn with_normalizer(self, normalizer: Normalizer) -> Self {
        Self { normalizer, ..self }
    }

    /// The weights that the filters run over, `[batch, channels, keys]`.
    fn channels(&self, state: &LocationState) -> Tensor<3> {
        let [previous, cumulative] = [&state.previous, &state.cumulative]
            .map(|weights| widened(weights.clone()).unsqueeze_dim(1));
        match self.features {
            LocationFeatures::Previous => previous,
            LocationFeatures::Cumulative => cumulative,
            LocationFeatures::Both => Tensor::cat(vec![previous, cumulative], 1),
        }
    }

    /// `U F`: without an activation between them, filters and linear layer are one filter for each hidden unit.
    fn filters(&self) -> Filters {
        let filters = value(&self.filters.weight);
        let [number, channels, width] = filters.dims();
        let (weight, bias) = of_linear(&self.location);
        let [_, num_hiddens] = weight.dims();
        let taps = filters.reshape([number, channels * width]).transpose();
        let of_filters = self.filters.bias.as_ref().map(|of_filters| {
            let row = value(of_filters).unsqueeze::<2>();
            linear(row, weight.clone(), bias.clone()).squeeze_dim(0)
        });
        Filters {
            weight: linear(taps, weight, None).reshape([channels, width, num_hiddens]),
            bias: of_filters.or(bias),
        }
    }
}
