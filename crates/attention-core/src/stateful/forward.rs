//! Forward attention: from one step to the next, the weights stay where they are or move on by one key.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::checks::assert_positive;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::harness::sigmoid::sigmoid;
use burn_fused_layers::harness::wide::widened;
use burn_fused_layers::linear;

use super::{AttentionState, StatefulAttention, selected, step};
use crate::attention::AttentionOutput;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::normalizer::Normalizer;

const NAME: &str = "ForwardAttention";

/// Configuration of [`ForwardAttention`].
#[derive(Config, Debug)]
pub struct ForwardAttentionConfig {
    /// A number added to the expected weight of a key before it is multiplied: with 0, a weight moves at most one key
    /// per step.
    #[config(default = 0.0)]
    pub epsilon: f64,
    /// The least product of an unmasked key, before the sum.
    #[config(default = 0.0)]
    pub floor: f64,
    /// The weight before the first step of every unmasked key but the first, whose weight is 1.
    #[config(default = 0.0)]
    pub rest: f64,
}

impl ForwardAttentionConfig {
    /// Forward attention around the weights of `attention`, which moves on with the probability 1/2.
    ///
    /// # Panics
    /// If an option is negative or not finite.
    pub fn init<A: StatefulAttention>(&self, attention: A) -> ForwardAttention<A> {
        let options = [
            ("epsilon", self.epsilon),
            ("floor", self.floor),
            ("rest", self.rest),
        ];
        for (name, option) in options {
            assert!(
                option.is_finite() && option >= 0.0,
                "ForwardAttentionConfig: {name} expected a finite number of at least 0, got {option}"
            );
        }
        ForwardAttention {
            attention,
            agent: None,
            epsilon: self.epsilon,
            floor: self.floor,
            rest: self.rest,
        }
    }

    /// [`init`](Self::init) with a new random transition agent on `device`, which reads the context, the decoder's
    /// previous output (`output_size` features, perhaps 0) and the query.
    ///
    /// # Panics
    /// As [`init`](Self::init), or if `value_size` or `query_size` is 0.
    pub fn init_with_agent<A: StatefulAttention>(
        &self,
        attention: A,
        [value_size, output_size, query_size]: [usize; 3],
        device: &Device,
    ) -> ForwardAttention<A> {
        let sizes = [("value_size", value_size), ("query_size", query_size)];
        assert_positive("ForwardAttentionConfig", &sizes);
        let agent = LinearConfig::new(value_size + output_size + query_size, 1).init(device);
        ForwardAttention {
            agent: Some(agent),
            ..self.init(attention)
        }
    }
}

/// Forward attention around the weights `y_i` of another attention:
/// `a_ij = ((1 - u) a_{i-1,j} + u a_{i-1,j-1} + epsilon) y_ij`, divided by its sum over the keys that are not masked.
/// The weights move on by one key with probability `u`, or stay, so that they read in order.
///
/// `u` is 1/2 before the first step, and always without a transition agent. After each step, the agent sets it to
/// `sigmoid(v . [context; output; query] + b)` for the next step. `output` is the decoder's output before this step,
/// for an agent that reads it; pass it by [`ForwardState::with_output`].
///
/// The inner attention's state receives `a_i` as the weights of the previous step, while sums in it are of `y`. A
/// masked key has the weight 0 in every step. If all products of a query are 0, so are its weights.
///
/// Zhang, Ling and Dai 2018, "Forward Attention in Sequence-to-Sequence Acoustic Modelling for Speech Synthesis",
/// sections 3.1 and 3.2; without `epsilon` and [`floor`](ForwardAttentionConfig::floor).
///
/// ```
/// use attention_core::stateful::{ForwardAttentionConfig, StatefulAttention};
/// use attention_core::{AdditiveAttentionConfig, Mask};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let inner = AdditiveAttentionConfig::new(3, 5, 8).init(&device);
/// let attention = ForwardAttentionConfig::new().init(inner);
/// let keys = Tensor::<3>::ones([1, 4, 5], &device);
/// let memory = attention.prepare(keys.clone(), keys, Mask::none());
/// let query = Tensor::<3>::ones([1, 1, 3], &device);
/// let (output, _) = attention.step_with_weights(query, &memory, attention.initial_state(&memory));
/// // Equal keys: from the first one, half of the weight stays and half moves on.
/// let weights = output.weights.try_into_vec_as::<f32>().unwrap();
/// assert!((weights[0] - 0.5).abs() < 1e-6 && (weights[1] - 0.5).abs() < 1e-6);
/// assert_eq!(weights[2..], [0.0, 0.0]);
/// ```
#[derive(Module, Debug)]
pub struct ForwardAttention<A: StatefulAttention> {
    /// The attention whose weights are `y`.
    pub attention: A,
    /// v, `[value_size + output_size + query_size, 1]`, and b.
    pub agent: Option<Linear>,
    epsilon: f64,
    floor: f64,
    rest: f64,
}

/// The state of a [`ForwardAttention`].
#[derive(Clone, Debug)]
pub struct ForwardState<S> {
    /// The state of the inner attention.
    pub inner: S,
    /// The weights of the previous step, `[batch, keys]`.
    pub weights: Tensor<2>,
    /// u, the probability to move on by one key, `[batch, 1]`.
    pub advance: Tensor<2>,
    /// The decoder's output before the next step, `[batch, output_size]`, for an agent that reads it.
    pub output: Option<Tensor<2>>,
}

impl<S> ForwardState<S> {
    /// Sets the decoder's output before the next step, `[batch, output_size]`.
    pub fn with_output(mut self, output: Tensor<2>) -> Self {
        self.output = Some(output);
        self
    }
}

impl<S: AttentionState> AttentionState for ForwardState<S> {
    fn select(&self, indices: Tensor<1, Int>) -> Self {
        let output = self.output.as_ref();
        Self {
            inner: self.inner.select(indices.clone()),
            weights: selected(&self.weights, &indices),
            advance: selected(&self.advance, &indices),
            output: output.map(|output| selected(output, &indices)),
        }
    }
}

impl<A: StatefulAttention> StatefulAttention for ForwardAttention<A> {
    type State = ForwardState<A::State>;

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        self.attention.prepare(keys, values, mask)
    }

    fn initial_state(&self, memory: &Memory) -> Self::State {
        let weights = step::on_first_key(memory, self.rest);
        let options = (&weights.device(), weights.dtype());
        ForwardState {
            inner: self.attention.initial_state(memory),
            advance: Tensor::full([memory.batch_size(), 1], 0.5, options),
            weights,
            output: None,
        }
    }

    /// # Panics
    /// Also if context, output and query together do not have the size that the transition agent reads, or the output
    /// has another batch.
    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: Self::State,
    ) -> (AttentionOutput<3>, Self::State) {
        step::expect_state(NAME, &state.weights, memory);
        let step = (self.attention).step_with_weights(query.clone(), memory, state.inner);
        let (AttentionOutput { weights, .. }, inner) = step;
        let [batch, _, num_keys] = weights.dims();
        if batch * num_keys == 0 {
            return (step::nothing(memory), ForwardState { inner, ..state });
        }
        let expected = self.moved(widened(state.weights), widened(state.advance.clone()));
        let weights = widened(weights).reshape([batch, num_keys]);
        let product = (expected * weights).clamp_min(self.floor);
        let product = product.reshape([batch, 1, 1, num_keys]);
        let weights = Normalizer::SumNormalized.weights(product, memory.mask());
        let output = step::pool(weights.clone(), weights.clone(), memory);
        let weights = step::flat(weights);
        let advance = match &self.agent {
            Some(agent) => advance(agent, &output.context, state.output, query),
            None => state.advance,
        };
        let next = ForwardState {
            inner: inner.with_weights(&weights),
            weights,
            advance,
            output: None,
        };
        (output, next)
    }

    fn penalty(&self, state: &Self::State) -> Option<Tensor<1>> {
        self.attention.penalty(&state.inner)
    }
}

impl<A: StatefulAttention> ForwardAttention<A> {
    /// The weights after moving by one key with probability `advance`, `[batch, 1]`, plus `epsilon`.
    fn moved(&self, weights: Tensor<2>, advance: Tensor<2>) -> Tensor<2> {
        let [_, num_keys] = weights.dims();
        let stay = weights.clone() * (1.0 - advance.clone());
        let nothing = weights.clone().narrow(1, 0, 1).detach().zeros_like();
        let before = if num_keys == 1 {
            nothing
        } else {
            Tensor::cat(vec![nothing, weights.narrow(1, 0, num_keys - 1)], 1)
        };
        stay + before * advance + self.epsilon
    }
}

/// `sigmoid(v . [context; output; query] + b)`, `[batch, 1]`.
fn advance(
    agent: &Linear,
    context: &Tensor<3>,
    output: Option<Tensor<2>>,
    query: Tensor<3>,
) -> Tensor<2> {
    let flat = |tensor: Tensor<3>| tensor.squeeze_dim::<2>(1);
    let [read, _] = agent.weight.dims();
    if let Some(output) = &output {
        let (expected, got) = (context.dims()[0], output.dims()[0]);
        assert!(
            got == expected,
            "{NAME}: expected an output of batch {expected} before the step, got {got}"
        );
    }
    let mut parts = vec![flat(context.clone())];
    parts.extend(output);
    parts.push(flat(query));
    let sizes: Vec<usize> = parts.iter().map(|part| part.dims()[1]).collect();
    assert!(
        sizes.iter().sum::<usize>() == read,
        "{NAME}: expected context, output and query of {read} features together, as the transition agent reads, got \
         {sizes:?}; hand in the output before the step by `ForwardState::with_output`"
    );
    let (weight, bias) = of_linear(agent);
    sigmoid(widened(linear(Tensor::cat(parts, 1), weight, bias)))
}
