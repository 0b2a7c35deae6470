//! Cells that are composed on every device: a GRU that resets before its product, and an LSTM with peepholes. Their
//! values are ONNX's (`recurrent_onnx`); here are their gradients and their records.

use std::collections::BTreeMap;

use attention_tests::{Array, Outcome, assert_close, assert_same, device, parameters};
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{Recurrent, RecurrentConfig, RecurrentState, Steps};

use crate::cells;

const BATCH: usize = 3;
const STEPS: usize = 5;
const SIZES: [usize; 2] = [2, 7];

/// The two cells, each in a layer that reads in both directions.
fn variants() -> [RecurrentConfig; 2] {
    let [_, _, reset_before, peepholes] = cells(SIZES);
    [reset_before, peepholes].map(|config| config.with_bidirectional(true))
}

/// Input and initial states by name.
fn inputs(config: &RecurrentConfig) -> Outcome {
    let [input_size, size] = SIZES;
    let input = Array::draw(1, &[BATCH, STEPS, input_size]);
    let mut inputs = Outcome::from([("input".into(), input)]);
    for (seed, name) in (2..).zip(["hidden", "cell"]).take(config.cell.states()) {
        inputs.insert(name.into(), Array::draw(seed, &[2, BATCH, size]));
    }
    inputs
}

/// A loss that reads the outputs of all steps and every last state; and, for a `gradient`, the gradients of inputs and
/// parameters.
fn run(
    layers: &Recurrent,
    inputs: &Outcome,
    steps: &Steps,
    (device, dtype): (&Device, DType),
    gradient: bool,
) -> (f64, Outcome) {
    let leaf = |value: &Array| value.leaf::<3>(device, dtype);
    let leaves = inputs.iter().map(|(name, value)| (&**name, leaf(value)));
    let leaves: BTreeMap<&str, Tensor<3>> = leaves.collect();
    let part = |name: &str, index: usize| {
        let state = leaves.get(name)?.clone();
        Some(state.narrow(0, index, 1).squeeze_dim::<2>(0))
    };
    let initial = (0..layers.layers.len() + layers.reversed.len()).map(|index| RecurrentState {
        hidden: part("hidden", index).unwrap(),
        cell: part("cell", index),
    });
    let initial = Some(initial.collect());
    let (outputs, last) = layers.forward(leaves["input"].clone(), initial, steps);
    let weights = Array::draw(5, &outputs.dims());
    // Outputs after the steps of an example are arbitrary.
    let weights = Array::from_fn(&weights.shape, |at| {
        let is_padding = (steps.lens.as_ref()).is_some_and(|lens| at[1] >= lens[at[0]]);
        if is_padding { 0.0 } else { weights.at(at) }
    });
    let mut loss = (outputs * weights.tensor(device, dtype)).sum();
    for (seed, state) in (6..).zip(last) {
        for part in [Some(state.hidden), state.cell].into_iter().flatten() {
            let weights = Array::draw(seed, &part.dims()).tensor::<2>(device, dtype);
            loss = loss + (part * weights).sum();
        }
    }
    let value = Array::read(loss.clone()).data[0];
    if !gradient {
        return (value, BTreeMap::new());
    }
    let gradients = loss.backward();
    let mut found = parameters::gradients(layers, Some(&gradients));
    for (name, leaf) in leaves {
        found.insert(name.into(), Array::read(leaf.grad(&gradients).unwrap()));
    }
    (value, found)
}

/// In f64, the gradient of each input and parameter, along a drawn direction, is the difference of the loss.
#[test]
fn gradients_are_differences() {
    const STEP: f64 = 1e-5;
    device::each_training(|device| {
        if !device::computes(device, DType::F64) {
            return;
        }
        for config in variants() {
            let layers = parameters::cast(config.init(device), DType::F64);
            let (inputs, on) = (inputs(&config), (device, DType::F64));
            for steps in [Steps::all(), Steps::of_lens([3, 5, 0]).reversed()] {
                let (_, gradients) = run(&layers, &inputs, &steps, on, true);
                let expected = inputs.len() + parameters::values(&layers).len();
                assert_eq!(gradients.len(), expected);
                for (seed, (name, gradient)) in (20..).zip(&gradients) {
                    let direction = Array::draw(seed, &gradient.shape);
                    let along = |value: &Array, step: f64| {
                        Array::from_fn(&value.shape, |at| value.at(at) + step * direction.at(at))
                    };
                    let loss = |step: f64| {
                        let mut inputs = inputs.clone();
                        if let Some(input) = inputs.get_mut(name) {
                            *input = along(input, step);
                        }
                        let moved = |path: &str, value| match path == name {
                            true => along(&value, step),
                            false => value,
                        };
                        let layers = parameters::changed(layers.clone(), moved);
                        run(&layers, &inputs, &steps, on, false).0
                    };
                    let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                    let derivative = gradient.dot(&direction);
                    let [got, expected] = [derivative, difference].map(|x| Array::full(&[1], x));
                    assert!(expected.magnitude() > 0.0);
                    assert_close(format!("{config} {steps:?}: {name}"), &got, &expected, 1e-6);
                }
            }
        }
    });
}

/// A gradient does not depend on which others are wanted.
#[test]
fn frozen_parameters_change_no_other_gradient() {
    device::each_training(|device| {
        for config in variants() {
            let (layers, inputs) = (config.init(device), inputs(&config));
            let steps = Steps::of_lens([3, 5, 0]);
            let on = (device, DType::F32);
            let (loss, all) = run(&layers, &inputs, &steps, on, true);
            let (frozen_loss, some) = run(&layers.no_grad(), &inputs, &steps, on, true);
            assert_eq!(frozen_loss, loss);
            for name in inputs.keys() {
                assert_close(name, &some[name], &all[name], 1e-6);
            }
        }
    });
}

#[test]
fn a_record_restores_every_parameter() {
    device::each_both_ways(|device| {
        for config in variants() {
            let saved = config.init(device);
            let values = parameters::values(&saved);
            let other = config.init(device);
            let loaded = parameters::values(&other.load_record(saved.into_record()));
            assert_eq!(loaded.len(), values.len());
            for (path, expected) in values {
                assert_same(&path, &loaded[&path], &expected);
            }
        }
    });
}
