//! A gated recurrent unit, trained step by step.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Device, Int, Tensor};

/// Configuration of a [`Gru`].
///
/// ```
/// use attention_seq2seq::GruConfig;
/// use burn::tensor::Device;
///
/// let gru = GruConfig::new(5, 7).init(&Device::flex());
/// assert_eq!(gru.hidden.weight.dims(), [7, 21]); // the gates r, z and n
/// ```
#[derive(Config, Debug)]
pub struct GruConfig {
    /// The feature dimension of an input.
    pub input_size: usize,
    /// The feature dimension of the hidden state.
    pub hidden_size: usize,
}

impl GruConfig {
    /// A GRU with new random parameters, uniform in `±1 / sqrt(hidden_size)` as in PyTorch.
    ///
    /// # Panics
    /// If a size is 0.
    pub fn init(&self, device: &Device) -> Gru {
        assert!(
            self.input_size > 0 && self.hidden_size > 0,
            "GruConfig: sizes expected at least 1, got input {} and hidden {}",
            self.input_size,
            self.hidden_size
        );
        let bound = 1.0 / (self.hidden_size as f64).sqrt();
        let linear = |from| {
            LinearConfig::new(from, 3 * self.hidden_size)
                .with_initializer(Initializer::Uniform {
                    min: -bound,
                    max: bound,
                })
                .init(device)
        };
        Gru {
            input: linear(self.input_size),
            hidden: linear(self.hidden_size),
        }
    }
}

/// A gated recurrent unit, one layer in one direction (Cho et al. 2014, "Learning Phrase Representations using RNN
/// Encoder-Decoder").
///
/// ```text
/// r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
/// z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
/// n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
/// h' = (1 - z) * n + z * h
/// ```
///
/// The gates stand side by side in the order r, z, n, as in `weight_ih_l0` and `weight_hh_l0` of PyTorch's
/// `torch.nn.GRU` (which are `[out, in]`; Burn's are `[in, out]`).
#[derive(Module, Debug)]
pub struct Gru {
    /// `W_i`, `[input_size, 3 * hidden_size]`, with bias.
    pub input: Linear,
    /// `W_h`, `[hidden_size, 3 * hidden_size]`, with bias.
    pub hidden: Linear,
}

/// One tensor for each gate. A step works on the gates apart: slicing them out of one tensor in every step would
/// cost a dense gradient of the whole in every step of the backward pass.
#[derive(Clone, Debug)]
pub(crate) struct Gates<const D: usize> {
    reset: Tensor<D>,
    update: Tensor<D>,
    new: Tensor<D>,
}

impl<const D: usize> Gates<D> {
    /// Splits the last axis of `tensor` into the three gates.
    fn split(tensor: Tensor<D>) -> Self {
        let size = tensor.dims()[D - 1] / 3;
        let gate = |index: usize| tensor.clone().narrow(D - 1, index * size, size);
        Self {
            reset: gate(0),
            update: gate(1),
            new: gate(2),
        }
    }

    fn map<const D2: usize>(&self, f: impl Fn(&Tensor<D>) -> Tensor<D2>) -> Gates<D2> {
        Gates {
            reset: f(&self.reset),
            update: f(&self.update),
            new: f(&self.new),
        }
    }
}

impl Gates<2> {
    fn add(self, other: Self) -> Self {
        Self {
            reset: self.reset + other.reset,
            update: self.update + other.update,
            new: self.new + other.new,
        }
    }
}

/// A [`Gru`] prepared for one pass over a sequence: its parameters, split into gates once.
#[derive(Clone, Debug)]
pub(crate) struct GruPass {
    /// `[input_size, hidden_size]` each.
    input: Gates<2>,
    /// `[hidden_size, hidden_size]` each.
    hidden: Gates<2>,
    /// `b_i + b_h` for r and z, `b_i` for n: `[1, hidden_size]` each.
    bias: Gates<2>,
    /// `b_hn`, which the reset gate multiplies: `[1, hidden_size]`.
    new_bias: Tensor<2>,
}

impl Gru {
    /// Prepares one pass over a sequence.
    pub(crate) fn pass(&self) -> GruPass {
        let bias = |linear: &Linear| {
            let [_, size] = linear.weight.dims();
            match &linear.bias {
                Some(bias) => bias.val().reshape([1, size]),
                None => Tensor::zeros([1, size], &linear.weight.device()),
            }
        };
        let from_hidden = Gates::split(bias(&self.hidden));
        let from_input = Gates::split(bias(&self.input));
        GruPass {
            input: Gates::split(self.input.weight.val()),
            hidden: Gates::split(self.hidden.weight.val()),
            bias: Gates {
                reset: from_input.reset + from_hidden.reset,
                update: from_input.update + from_hidden.update,
                new: from_input.new,
            },
            new_bias: from_hidden.new,
        }
    }
}

impl GruPass {
    /// The inputs' share of the gates, `W_i x + b`: `[rows, hidden_size]` each for `[rows, input_size]`.
    pub(crate) fn inputs(&self, input: Tensor<2>) -> Gates<2> {
        self.input
            .map(|weight| input.clone().matmul(weight.clone()))
            .add(self.bias.clone())
    }

    /// The inputs' share of the gates for every row of an embedding, `[tokens, size]`, whose features are the first
    /// inputs; [`weights_after`](Self::weights_after) are the weights of the others.
    ///
    /// A vocabulary is small beside a batch of sequences, so a table of products is cheaper than the products of
    /// all embedded tokens; [`Table::rows`] looks them up.
    pub(crate) fn table(&self, embedding: Tensor<2>) -> Table {
        let [_, size] = embedding.dims();
        let products = self
            .input
            .map(|weight| embedding.clone().matmul(weight.clone().narrow(0, 0, size)));
        Table(products.add(self.bias.clone()))
    }

    /// The weights of all inputs but the first `size`, at least one: `[input_size - size, hidden_size]` each.
    pub(crate) fn weights_after(&self, size: usize) -> Gates<2> {
        let [input_size, _] = self.input.reset.dims();
        let others = input_size - size;
        self.input
            .map(|weight| weight.clone().narrow(0, size, others))
    }

    /// The state `h'` from the inputs' share of the gates and the state `h`, both `[batch, hidden_size]`.
    pub(crate) fn step(&self, inputs: Gates<2>, hidden: Tensor<2>) -> Tensor<2> {
        let from_hidden = self
            .hidden
            .map(|weight| hidden.clone().matmul(weight.clone()));
        let reset = sigmoid(inputs.reset + from_hidden.reset);
        let update = sigmoid(inputs.update + from_hidden.update);
        let new = tanh(inputs.new + reset * (from_hidden.new + self.new_bias.clone()));
        new.clone() + update * (hidden - new)
    }
}

impl Gates<2> {
    /// These gates plus `input` times `weights`.
    pub(crate) fn add_product(self, input: Tensor<2>, weights: &Self) -> Self {
        self.add(weights.map(|weight| input.clone().matmul(weight.clone())))
    }
}

/// The inputs' share of the gates for every token of a vocabulary, `[tokens, hidden_size]` each.
#[derive(Clone, Debug)]
pub(crate) struct Table(Gates<2>);

impl Table {
    /// The rows of `tokens`, `[batch]`.
    pub(crate) fn rows(&self, tokens: Tensor<1, Int>) -> Gates<2> {
        self.0.map(|gate| gate.clone().select(0, tokens.clone()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use burn::tensor::Distribution;

    use super::*;
    use crate::device::test_device;

    const BATCH: usize = 3;
    const EMBEDDING: usize = 4;
    const CONTEXT: usize = 5;
    const HIDDEN: usize = 7;
    const TOKENS: usize = 11;

    fn read<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
        tensor.to_data().iter::<f64>().collect()
    }

    fn assert_close(actual: &Tensor<2>, expected: &[f64]) {
        let actual = read(actual);
        assert_eq!(actual.len(), expected.len());
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() < 1e-6, "{actual:?} is not {expected:?}");
        }
    }

    /// The formulas of [`Gru`]'s documentation, for one row, by plain loops.
    fn step(gru: &Gru, x: &[f64], h: &[f64]) -> Vec<f64> {
        let linear = |linear: &Linear, input: &[f64], column: usize| {
            let weight = read(&linear.weight.val());
            let products = input.iter().enumerate();
            let products = products.map(|(row, value)| value * weight[row * 3 * HIDDEN + column]);
            products.sum::<f64>() + read(&linear.bias.as_ref().unwrap().val())[column]
        };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let unit = |unit: usize| {
            let [r, z, n] = [unit, HIDDEN + unit, 2 * HIDDEN + unit];
            let reset = sigmoid(linear(&gru.input, x, r) + linear(&gru.hidden, h, r));
            let update = sigmoid(linear(&gru.input, x, z) + linear(&gru.hidden, h, z));
            let new = (linear(&gru.input, x, n) + reset * linear(&gru.hidden, h, n)).tanh();
            (1.0 - update) * new + update * h[unit]
        };
        (0..HIDDEN).map(unit).collect()
    }

    #[test]
    fn a_step_follows_the_formulas_whichever_way_its_input_comes() {
        let device = test_device();
        let random = |rows: usize, size: usize| {
            Tensor::<2>::random([rows, size], Distribution::Normal(0.0, 1.0), &device)
        };
        let gru = GruConfig::new(EMBEDDING + CONTEXT, HIDDEN).init(&device);
        let pass = gru.pass();
        let embedding = random(TOKENS, EMBEDDING);
        let tokens = [8, 0, 8];
        let context = random(BATCH, CONTEXT);
        let hidden = random(BATCH, HIDDEN);
        let rows = Tensor::<1, Int>::from_data(tokens, &device);
        let embedded = embedding.clone().select(0, rows.clone());
        let input = Tensor::cat(vec![embedded, context.clone()], 1);

        let expected: Vec<f64> = read(&input)
            .chunks(EMBEDDING + CONTEXT)
            .zip(read(&hidden).chunks(HIDDEN))
            .flat_map(|(x, h)| step(&gru, x, h))
            .collect();
        assert_close(&pass.step(pass.inputs(input), hidden.clone()), &expected);
        let context_weights = pass.weights_after(EMBEDDING);
        let gates = pass.table(embedding).rows(rows);
        let gates = gates.add_product(context, &context_weights);
        assert_close(&pass.step(gates, hidden), &expected);
    }

    #[test]
    fn parameters_start_within_pytorchs_bound() {
        let device = test_device();
        let gru = GruConfig::new(EMBEDDING, HIDDEN).init(&device);
        let bound = 1.0 / (HIDDEN as f64).sqrt();
        for linear in [&gru.input, &gru.hidden] {
            for values in [
                read(&linear.weight.val()),
                read(&linear.bias.as_ref().unwrap().val()),
            ] {
                let largest = values.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
                assert!(largest <= bound && largest > 0.5 * bound, "{values:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "sizes expected at least 1, got input 3 and hidden 0")]
    fn a_size_of_nothing_is_refused() {
        let device = test_device();
        GruConfig::new(3, 0).init(&device);
    }
}
