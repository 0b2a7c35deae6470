//! Recurrent layers: PyTorch's results, and the same numbers on every device.

use std::collections::BTreeMap;

use attention_core::ops;
use attention_core::recurrent::{Gru, GruConfig, Lstm, LstmConfig, LstmState, Steps};
use attention_tests::{Array, assert_close, device, panic_message, reference_path};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    bidirectional: bool,
    lengths: Option<Vec<usize>>,
    inputs: BTreeMap<String, Array>,
    outputs: BTreeMap<String, Array>,
    gradients: BTreeMap<String, Array>,
}

fn pytorch(file: &str) -> Vec<Case> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let text = std::fs::read_to_string(reference_path(file)).unwrap();
    let file: File = serde_json::from_str(&text).unwrap();
    assert_eq!(file.cases.len(), 4);
    file.cases
}

impl Case {
    fn input(&self, name: &str) -> &Array {
        &self.inputs[name]
    }

    /// A linear layer of PyTorch, whose weight is `[out, in]`.
    fn layer(&self, name: &str, suffix: &str, device: &Device, dtype: DType) -> Linear {
        let weight = self.input(&format!("weight_{name}_l0{suffix}"));
        let weight = weight.tensor::<2>(device, dtype).transpose().detach();
        let bias = self.input(&format!("bias_{name}_l0{suffix}"));
        let bias = bias.tensor::<1>(device, dtype);
        Linear {
            weight: Param::from_tensor(weight),
            bias: Some(Param::from_tensor(bias)),
        }
    }

    fn steps(&self, suffix: &str) -> Steps {
        let steps = match &self.lengths {
            Some(lens) => Steps::of_lens(lens.clone()),
            None => Steps::all(),
        };
        match suffix {
            "" => steps,
            _ => steps.reversed(),
        }
    }

    /// The part of one direction of an array, `[batch, steps, directions * size]`, and 0 at padding.
    fn of_direction(&self, array: &Array, suffix: &str, size: usize) -> Array {
        let [batch, count, width] = array.shape.clone().try_into().unwrap();
        let first = if suffix.is_empty() { 0 } else { width - size };
        Array::from_fn(&[batch, count, size], |at| {
            let len = self.lengths.as_ref().map_or(count, |lens| lens[at[0]]);
            match at[1] < len {
                true => array.data[(at[0] * count + at[1]) * width + first + at[2]],
                false => 0.0,
            }
        })
    }

    /// The part of one direction of `[directions, batch, size]`.
    fn last(&self, array: &Array, suffix: &str) -> Array {
        let [_, batch, size] = array.shape.clone().try_into().unwrap();
        let direction = usize::from(!suffix.is_empty());
        let part = &array.data[direction * batch * size..][..batch * size];
        Array {
            shape: vec![batch, size],
            data: part.to_vec(),
        }
    }

    /// Runs the layer of one direction, and holds all it gives to PyTorch's.
    fn check_direction(&self, suffix: &str, device: &Device, dtype: DType) -> Array {
        let tolerance = if dtype == DType::F64 { 1e-9 } else { 1e-5 };
        let what = |of: &str| format!("{}{suffix}: {of}, {dtype:?}", self.name);
        let input = self
            .input("input")
            .tensor::<3>(device, dtype)
            .require_grad();
        let layers = ["ih", "hh"].map(|name| self.layer(name, suffix, device, dtype));
        let [[_, width], _] = [&layers[0], &layers[1]].map(|layer| layer.weight.dims());
        let is_lstm = self.outputs.contains_key("cell");
        let size = width / if is_lstm { 4 } else { 3 };
        let parameters = layers.clone();
        let [in_layer, hidden] = layers;
        let steps = self.steps(suffix);
        let (states, ends) = if is_lstm {
            let lstm = Lstm {
                input: in_layer,
                hidden,
            };
            let (states, LstmState { hidden, cell }) = lstm.forward(input.clone(), None, &steps);
            (states, vec![("hidden", hidden), ("cell", cell)])
        } else {
            let gru = Gru {
                input: in_layer,
                hidden,
            };
            let (states, last) = gru.forward(input.clone(), None, &steps);
            (states, vec![("hidden", last)])
        };
        let clean = self.of_direction(&Array::read(states.clone()), "", size);
        let expected = self.of_direction(&self.outputs["output"], suffix, size);
        assert_close(&what("states"), &clean, &expected, tolerance);
        let gradient = self.of_direction(self.input("grad_output"), suffix, size);
        let mut loss = (states * gradient.tensor(device, dtype)).sum();
        for (name, end) in ends {
            let expected = self.last(&self.outputs[name], suffix);
            assert_close(&what(name), &Array::read(end.clone()), &expected, tolerance);
            if let Some(gradient) = self.inputs.get(&format!("grad_{name}")) {
                let gradient = self.last(gradient, suffix).tensor(device, dtype);
                loss = loss + (end * gradient).sum();
            }
        }
        let gradients = loss.backward();
        for (name, layer) in ["ih", "hh"].into_iter().zip(parameters) {
            let weight = format!("weight_{name}_l0{suffix}");
            let got = layer.weight.val().grad(&gradients).unwrap().transpose();
            let expected = &self.gradients[&weight];
            assert_close(&what(&weight), &Array::read(got), expected, tolerance);
            let bias = format!("bias_{name}_l0{suffix}");
            let got = layer.bias.unwrap().val().grad(&gradients).unwrap();
            assert_close(
                &what(&bias),
                &Array::read(got),
                &self.gradients[&bias],
                tolerance,
            );
        }
        Array::read(input.grad(&gradients).unwrap())
    }

    fn check(&self, device: &Device, dtype: DType) {
        let mut input = self.check_direction("", device, dtype);
        if self.bidirectional {
            let other = self.check_direction("_reverse", device, dtype);
            for (sum, other) in input.data.iter_mut().zip(other.data) {
                *sum += other;
            }
        }
        let tolerance = if dtype == DType::F64 { 1e-9 } else { 2e-5 };
        assert_close("input", &input, &self.gradients["input"], tolerance);
    }
}

#[test]
fn gru_is_that_of_pytorch() {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for case in pytorch("gru.json") {
                case.check(device, dtype);
            }
        }
    });
}

#[test]
fn lstm_is_that_of_pytorch() {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for case in pytorch("lstm.json") {
                case.check(device, dtype);
            }
        }
    });
}

/// States and all gradients of a layer from a given state, on a device.
fn run(cell: ops::Cell, steps: &Steps, device: &Device) -> Vec<Array> {
    let (batch, count, size) = (5, 7, 19);
    let width = cell.gates() * size;
    let leaf = |seed: u64, shape: &[usize]| Array::draw(seed, shape);
    let gates = leaf(1, &[batch, count, width])
        .tensor::<3>(device, DType::F32)
        .require_grad();
    let weight = leaf(2, &[size, width]).tensor::<2>(device, DType::F32) * 0.2;
    let weight = weight.detach().require_grad();
    let bias = leaf(3, &[width])
        .tensor::<1>(device, DType::F32)
        .require_grad();
    let initial = leaf(4, &[cell.states(), batch, size]);
    let initial = initial.tensor::<3>(device, DType::F32).require_grad();
    let hidden = (weight.clone(), bias.clone());
    let (starts, steps) = (initial.clone(), steps.clone());
    let states = ops::recurrent(cell, gates.clone(), hidden, None, starts, steps);
    let gradient = leaf(5, &[cell.states(), batch, count, size]).tensor::<4>(device, DType::F32);
    let gradients = (states.clone() * gradient).sum().backward();
    vec![
        Array::read(states),
        Array::read(gates.grad(&gradients).unwrap()),
        Array::read(weight.grad(&gradients).unwrap()),
        Array::read(bias.grad(&gradients).unwrap()),
        Array::read(initial.grad(&gradients).unwrap()),
    ]
}

#[cfg(feature = "flex")]
#[test]
fn every_device_computes_what_flex_does() {
    device::each_training(|device| {
        for cell in [ops::Cell::Gru, ops::Cell::Lstm] {
            let some = Steps::of_lens([7, 5, 1, 0, 6]);
            for steps in [
                Steps::all(),
                Steps::all().reversed(),
                some.clone(),
                some.reversed(),
            ] {
                let expected = run(cell, &steps, &Device::flex().autodiff());
                for (got, expected) in run(cell, &steps, device).iter().zip(&expected) {
                    assert_close(&format!("{cell:?} {steps:?}"), got, expected, 2e-5);
                }
            }
        }
    });
}

/// What is between the steps of a shorter example and the end of the batch may hold anything.
#[test]
fn padding_is_not_read() {
    device::each_training(|device| {
        let gru = GruConfig::new(3, 4).init(device);
        let lens = [2, 5, 0];
        for steps in [Steps::of_lens(lens), Steps::of_lens(lens).reversed()] {
            let run = |poison: f64| {
                let input = Array::from_fn(&[3, 5, 3], |at| match at[1] < lens[at[0]] {
                    true => (at[0] * 7 + at[1] * 3 + at[2]) as f64 / 16.0 - 1.0,
                    false => poison,
                });
                let input = input.tensor::<3>(device, DType::F32).require_grad();
                let (states, last) = gru.forward(input.clone(), None, &steps);
                let gradients = (states.clone().sum() + last.sum()).backward();
                let parameters = [&gru.input, &gru.hidden].into_iter().flat_map(|layer| {
                    let bias = layer.bias.as_ref().unwrap().val();
                    [
                        Array::read(layer.weight.val().grad(&gradients).unwrap()),
                        Array::read(bias.grad(&gradients).unwrap()),
                    ]
                });
                let mut results: Vec<Array> = parameters.collect();
                results.push(Array::read(states));
                results.push(Array::read(input.grad(&gradients).unwrap()));
                results
            };
            let expected = run(0.0);
            assert!(expected.iter().all(|array| array.magnitude() > 0.0));
            assert_eq!(run(f64::NAN), expected);
            assert_eq!(run(f64::INFINITY), expected);
        }
    });
}

/// The gates' own gradient is 0 at padding, where they may be NaN.
#[test]
fn gates_at_padding_are_not_read() {
    device::each_training(|device| {
        let lstm = LstmConfig::new(3, 4).init(device);
        let lens = [2, 5];
        let run = |poison: f64| {
            let gates = Array::from_fn(&[2, 5, 16], |at| match at[1] < lens[at[0]] {
                true => (at[0] * 7 + at[1] * 3 + at[2]) as f64 / 16.0 - 1.0,
                false => poison,
            });
            let gates = gates.tensor::<3>(device, DType::F32).require_grad();
            let (states, _) = lstm.forward_gates(gates.clone(), None, &Steps::of_lens(lens));
            let gradients = states.clone().sum().backward();
            let gradient = Array::read(gates.grad(&gradients).unwrap());
            for step in lens[0]..5 {
                assert_eq!(gradient.at(&[0, step, 0]), 0.0);
            }
            [Array::read(states), gradient]
        };
        assert_eq!(run(f64::NAN), run(0.0));
    });
}

#[test]
fn parameters_start_within_pytorchs_bound() {
    device::each(|device| {
        let gru = GruConfig::new(4, 7).init(device);
        let lstm = LstmConfig::new(4, 7).init(device);
        let bound = 1.0 / 7f64.sqrt();
        for (layer, dims) in [
            (&gru.input, [4, 21]),
            (&gru.hidden, [7, 21]),
            (&lstm.input, [4, 28]),
            (&lstm.hidden, [7, 28]),
        ] {
            assert_eq!(layer.weight.dims(), dims);
            let bias = Array::read(layer.bias.as_ref().unwrap().val());
            for parameter in [Array::read(layer.weight.val()), bias] {
                let largest = parameter.magnitude();
                assert!(largest <= bound && largest > 0.5 * bound, "{largest}");
            }
        }
        let message = panic_message(|| GruConfig::new(3, 0).init(device));
        assert!(
            message.contains("GruConfig: hidden_size expected at least 1, got 0"),
            "{message}"
        );
        let message = panic_message(|| LstmConfig::new(0, 3).init(device));
        assert!(
            message.contains("LstmConfig: input_size expected at least 1, got 0"),
            "{message}"
        );
    });
}

#[test]
fn half_precision_is_computed_in_f32() {
    device::each(|device| {
        for dtype in [DType::F16, DType::BF16] {
            if !device::computes(device, dtype) {
                continue;
            }
            let layer = |dtype| {
                let lstm = LstmConfig::new(3, 5);
                let draw = |seed, shape: &[usize]| Array::draw(seed, shape);
                let mut lstm = lstm.init(device);
                for (seed, layer) in [(1, &mut lstm.input), (2, &mut lstm.hidden)] {
                    let shape = layer.weight.dims();
                    let weight = draw(seed, &shape).tensor::<2>(device, dtype);
                    layer.weight = Param::from_tensor(weight);
                    let bias = draw(seed + 2, &shape[1..]).tensor::<1>(device, dtype);
                    layer.bias = Some(Param::from_tensor(bias));
                }
                let gates = draw(5, &[2, 4, 20]).tensor::<3>(device, dtype);
                let (states, _) = lstm.forward_gates(gates, None, &Steps::all());
                assert_eq!(states.dtype(), dtype);
                Array::read(states)
            };
            let (got, expected) = (layer(dtype), layer(DType::F32));
            assert_close("states", &got, &expected, device::epsilon(dtype));
        }
    });
}

#[test]
fn without_a_step_the_last_state_is_the_initial_one() {
    device::each(|device| {
        let gru = GruConfig::new(3, 4).init(device);
        let input = Tensor::zeros([2, 0, 3], device);
        let initial = Tensor::<2>::ones([2, 4], device);
        let (states, last) = gru.forward(input.clone(), Some(initial), &Steps::all());
        assert_eq!(states.dims(), [2, 0, 4]);
        assert_eq!(Array::read(last).data, [1.0; 8]);
        let (_, last) = gru.forward(input, None, &Steps::all());
        assert_eq!(Array::read(last).data, [0.0; 8]);
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    device::each(|device| {
        let gru = GruConfig::new(3, 4).init(device);
        let input = || Tensor::zeros([2, 5, 3], device);
        let message = panic_message(|| gru.forward(input(), None, &Steps::of_lens([5])));
        assert!(
            message.contains("lens expected 2 of at most 5, got [5]"),
            "{message}"
        );
        let message = panic_message(|| gru.forward(input(), None, &Steps::of_lens([5, 6])));
        assert!(message.contains("at most 5, got [5, 6]"), "{message}");
        let initial = Some(Tensor::zeros([2, 3], device));
        let message = panic_message(|| gru.forward(input(), initial, &Steps::all()));
        assert!(
            message.contains("initial state expected [1, 2, 4], got [1, 2, 3]"),
            "{message}"
        );
        if device::computes(device, DType::F64) {
            let initial = Some(Tensor::zeros([2, 4], (device, DType::F64)));
            let message = panic_message(|| gru.forward(input(), initial, &Steps::all()));
            let expected = "initial state expected of type F32, as the gates, got F64";
            assert!(message.contains(expected), "{message}");
        }
        let message = panic_message(|| gru.gates(Tensor::zeros([2, 5, 4], device)));
        assert!(
            message.contains("last axis of the input expected 3"),
            "{message}"
        );
    });
}
