//! Recurrent layers: the same numbers on every device, padding, sizes, and what is refused.

use attention_tests::{Array, assert_all_close, assert_close, device, parameters, refuses};
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig, RecurrentState, Steps};

use crate::cells;
use crate::leaves::Leaves;

fn recurrent(cell: CellKind, sizes: [usize; 2], device: &Device) -> Recurrent {
    RecurrentConfig::new(cell, sizes[0], sizes[1]).init(device)
}

/// States and all gradients of a layer from a given state, on a device.
fn run(cell: CellKind, steps: &Steps, device: &Device) -> Vec<Array> {
    let mut leaves = Leaves::draw(cell, [5, 7, 19], device);
    leaves.weight = (leaves.weight * 0.2).detach().require_grad();
    let states = leaves.states(cell, steps).all();
    let gradient = Array::draw(5, &states.dims()).tensor::<4>(device, DType::F32);
    let gradients = (states.clone() * gradient).sum().backward();
    let mut results = vec![Array::read(states)];
    results.extend(leaves.gradients(&gradients));
    results
}

#[cfg(feature = "flex")]
#[test]
fn every_device_computes_what_flex_does() {
    device::each_training(|device| {
        for cell in [CellKind::Gru, CellKind::Lstm] {
            let [all, some] = [Steps::all(), Steps::of_lens([7, 5, 1, 0, 6])];
            let reversed = [all.clone().reversed(), some.clone().reversed()];
            for steps in [all, some].into_iter().chain(reversed) {
                let expected = run(cell, &steps, &Device::flex().autodiff());
                let got = run(cell, &steps, device);
                assert_all_close(format!("{cell:?} {steps:?}"), &got, &expected, 2e-5);
            }
        }
    });
}

/// The padding after a shorter example may hold anything.
#[test]
fn padding_is_not_read() {
    device::each_training(|device| {
        let [gru, lstm, reset_before, peepholes] = cells([3, 4]);
        let deep = |config: RecurrentConfig| config.with_layers(2).with_bidirectional(true);
        for config in [gru, deep(lstm), deep(reset_before), deep(peepholes)] {
            let recurrent = config.init(device);
            let lens = [2, 5, 0];
            for steps in [Steps::of_lens(lens), Steps::of_lens(lens).reversed()] {
                let run = |poison: f64| {
                    let input = Array::from_fn(&[3, 5, 3], |at| match at[1] < lens[at[0]] {
                        true => (at[0] * 7 + at[1] * 3 + at[2]) as f64 / 16.0 - 1.0,
                        false => poison,
                    });
                    let input = input.leaf::<3>(device, DType::F32);
                    let (outputs, last) = recurrent.forward(input.clone(), None, &steps);
                    let ends = last.into_iter().map(|state| state.hidden.sum());
                    let loss = ends.fold(outputs.clone().sum(), |sum, end| sum + end);
                    let gradients = loss.backward();
                    let mut results = parameters::gradients(&recurrent, Some(&gradients));
                    results.insert("outputs".into(), Array::read(outputs));
                    let of_input = input.grad(&gradients).unwrap();
                    results.insert("input".into(), Array::read(of_input));
                    results
                };
                let expected = run(0.0);
                assert!(expected.values().all(|array| array.magnitude() > 0.0));
                assert_eq!(run(f64::NAN), expected);
                assert_eq!(run(f64::INFINITY), expected);
            }
        }
    });
}

/// The gates' own gradient is 0 at padding, where they may be NaN.
#[test]
fn gates_at_padding_are_not_read() {
    device::each_training(|device| {
        for config in cells([3, 4]) {
            let layer = &config.init(device).layers[0];
            let (lens, width) = ([2, 5], config.cell.gates() * 4);
            let run = |poison: f64| {
                let gates = Array::from_fn(&[2, 5, width], |at| match at[1] < lens[at[0]] {
                    true => (at[0] * 7 + at[1] * 3 + at[2]) as f64 / 16.0 - 1.0,
                    false => poison,
                });
                let gates = gates.leaf::<3>(device, DType::F32);
                let (states, _) = layer.forward_gates(gates.clone(), None, &Steps::of_lens(lens));
                let gradients = states.clone().sum().backward();
                let gradient = Array::read(gates.grad(&gradients).unwrap());
                for step in lens[0]..5 {
                    assert_eq!(gradient.at(&[0, step, 0]), 0.0);
                }
                [Array::read(states), gradient]
            };
            assert_eq!(run(f64::NAN), run(0.0));
        }
    });
}

/// Kernels write in the place of gates that nothing else has, and of no others.
#[test]
fn gates_that_others_have_stay_what_they_are() {
    device::each_training(|device| {
        for config in cells([3, 4]) {
            let layer = &config.init(device).layers[0];
            let run = |gates: Tensor<3>| layer.forward_gates(gates, None, &Steps::all()).0;
            let values = Array::draw(1, &[6, 5, config.cell.gates() * 4]);
            let all = values.leaf::<3>(device, DType::F32);
            let before = Array::read(all.clone());
            let part = all.clone().narrow(0, 2, 1);
            let copy = Array::read(part.clone());
            let [first, second] = [part.clone(), part].map(run);
            let gradients = (first.clone() + second.clone() * 2.0).sum().backward();
            assert_eq!(Array::read(all.clone()), before);
            let alone = copy.leaf::<3>(device, DType::F32);
            let states = run(alone.clone());
            let expected = Array::read(states.clone());
            assert_eq!(Array::read(first), expected);
            assert_eq!(Array::read(second), expected);
            let of_part = alone.grad(&(states * 3.0).sum().backward()).unwrap();
            assert_eq!(Array::read(alone), copy);
            let of_all = all.grad(&gradients).unwrap();
            assert_eq!(Array::read(of_all.clone().narrow(0, 0, 2)).magnitude(), 0.0);
            let got = Array::read(of_all.narrow(0, 2, 1));
            assert_close(format!("{config}"), &got, of_part, 1e-6);
        }
    });
}

#[test]
fn parameters_start_within_pytorchs_bound() {
    device::each(|device| {
        let bound = 1.0 / 7f64.sqrt();
        for config in cells([4, 7]) {
            for (path, values) in parameters::values(&config.init(device)) {
                let largest = values.magnitude();
                let holds = largest <= bound && largest > 0.5 * bound;
                assert!(holds, "{path}: {largest}");
                let rows = if path.contains("input") { 4 } else { 7 };
                let width = config.cell.gates() * 7;
                match values.shape[..] {
                    _ if path.contains("peepholes") => assert_eq!(values.shape, [3, 7]),
                    [from, to] => assert_eq!([from, to], [rows, width], "{path}"),
                    _ => assert_eq!(values.shape, [width], "{path}"),
                }
            }
        }
        #[rustfmt::skip]
        let cases = [
            (RecurrentConfig::new(CellKind::Gru, 3, 0), "hidden_size expected at least 1, got 0"),
            (RecurrentConfig::new(CellKind::Gru, 0, 3), "input_size expected at least 1, got 0"),
            (RecurrentConfig::new(CellKind::Lstm, 3, 3).with_layers(0), "layers expected at least 1, got 0"),
            (RecurrentConfig::new(CellKind::Lstm, 3, 3).with_dropout(1.0), "dropout expected in [0, 1), got 1"),
            (
                RecurrentConfig::new(CellKind::Lstm, 3, 3).with_reset_after(false),
                "`reset_after` is for a Gru, expected true for a Lstm, got false",
            ),
            (
                RecurrentConfig::new(CellKind::Gru, 3, 3).with_peepholes(true),
                "`peepholes` is for a Lstm, expected false for a Gru, got true",
            ),
        ];
        for (config, expected) in cases {
            let expected = format!("RecurrentConfig: {expected}");
            refuses(&expected, || config.init(device));
        }
    });
}

#[test]
fn half_precision_is_computed_in_f32() {
    device::each(device::in_half_types(|(device, dtype)| {
        for config in cells([3, 5]) {
            let run = |dtype| {
                let mut seed = 0;
                let layers = parameters::changed(config.init(device), |_, value| {
                    seed += 1;
                    Array::draw(seed, &value.shape)
                });
                let layer = &parameters::cast(layers, dtype).layers[0];
                let gates = Array::draw(5, &[2, 4, config.cell.gates() * 5]);
                let gates = gates.tensor::<3>(device, dtype);
                let (outputs, _) = layer.forward_gates(gates, None, &Steps::all());
                assert_eq!(outputs.dtype(), dtype);
                Array::read(outputs)
            };
            let (got, expected) = (run(dtype), run(DType::F32));
            assert_close(format!("{config}"), &got, &expected, device::epsilon(dtype));
        }
    }));
}

/// The cell c of an LSTM is a sum over steps: each adds less than bf16 would keep of it.
#[test]
fn the_cell_of_many_steps_is_f32() {
    device::each(device::in_half_types(|(device, dtype)| {
        // f is about 1, i times g about 1/1000.
        let bias = |at: &[usize]| [-6.9, 12.0, 12.0, 0.0][at[0] / 2];
        let lstm = recurrent(CellKind::Lstm, [3, 2], device);
        let lstm = parameters::changed(lstm, |path, value| match path.ends_with("hidden.bias") {
            true => Array::from_fn(&value.shape, bias),
            false => value.map(|_| 0.0),
        });
        let layer = &parameters::cast(lstm, dtype).layers[0];
        let cell = layer.cell();
        let zeros = || Tensor::<2>::zeros([1, 2], (device, dtype));
        let mut state = RecurrentState::of_hidden(zeros());
        state.cell = Some(zeros());
        let gates = Tensor::<2>::zeros([1, 8], (device, dtype));
        for _ in 0..1000 {
            state = cell.forward(gates.clone(), state);
        }
        assert_eq!(state.hidden.dtype(), dtype);
        let gates = Tensor::zeros([1, 1000, 8], (device, dtype));
        let (_, all) = layer.forward_gates(gates, None, &Steps::all());
        let [got, expected] = [state, all].map(|state| Array::read(state.cell.unwrap()));
        assert_close("c", &got, &expected, device::epsilon(dtype));
    }));
}

#[test]
fn without_a_step_the_last_state_is_the_initial_one() {
    device::each(|device| {
        let gru = recurrent(CellKind::Gru, [3, 4], device);
        let input = Tensor::zeros([2, 0, 3], device);
        let initial = vec![RecurrentState::of_hidden(Tensor::ones([2, 4], device))];
        let (outputs, last) = gru.forward(input.clone(), Some(initial), &Steps::all());
        assert_eq!(outputs.dims(), [2, 0, 4]);
        assert_eq!(Array::read(last[0].hidden.clone()).data, [1.0; 8]);
        let (_, last) = gru.forward(input, None, &Steps::all());
        assert_eq!(Array::read(last[0].hidden.clone()).data, [0.0; 8]);
    });
}

#[test]
fn without_examples_there_are_no_states() {
    device::each(|device| {
        for config in cells([3, 4]) {
            let (kind, layers) = (config.cell, config.with_layers(2).init(device));
            let state = || RecurrentState {
                hidden: Tensor::zeros([0, 4], device),
                cell: (kind == CellKind::Lstm).then(|| Tensor::zeros([0, 4], device)),
            };
            for initial in [None, Some(vec![state(), state()])] {
                let input = Tensor::zeros([0, 5, 3], device);
                let (outputs, last) = layers.forward(input, initial, &Steps::all());
                assert_eq!(outputs.dims(), [0, 5, 4]);
                assert_eq!(last[1].hidden.dims(), [0, 4]);
                assert_eq!(last[1].cell.is_some(), kind == CellKind::Lstm);
            }
        }
    });
}

#[test]
fn the_states_of_one_half_start_the_other() {
    device::each_training(|device| {
        for config in cells([3, 4]) {
            let layers = config.clone().with_layers(2).init(device);
            let input = Array::draw(1, &[2, 6, 3]).leaf::<3>(device, DType::F32);
            let run = |halves: &[usize]| {
                let mut state = None;
                let halves = input
                    .clone()
                    .split_with_sizes(halves.to_vec(), 1)
                    .into_iter();
                let outputs = halves.map(|part| {
                    let (output, last) = layers.forward(part, state.take(), &Steps::all());
                    state = Some(last);
                    output
                });
                let outputs = Tensor::cat(outputs.collect(), 1);
                let weights = Array::draw(2, &[2, 6, 4]).f32::<3>(device);
                let gradients = (outputs.clone() * weights).sum().backward();
                let mut results = parameters::gradients(&layers, Some(&gradients));
                results.insert("outputs".into(), Array::read(outputs));
                let of_input = input.grad(&gradients).unwrap();
                results.insert("input".into(), Array::read(of_input));
                results
            };
            let expected = run(&[6]);
            for (name, got) in run(&[2, 4]) {
                assert_close(format!("{config}: {name}"), &got, &expected[&name], 2e-6);
            }
        }
    });
}

#[test]
fn outputs_between_layers_are_dropped_in_training_alone() {
    device::each_training(|device| {
        let config = RecurrentConfig::new(CellKind::Gru, 3, 40).with_dropout(0.5);
        let input = Array::draw(1, &[2, 4, 3]);
        let run = |recurrent: &Recurrent, device: &Device| {
            let (outputs, _) = recurrent.forward(input.f32(device), None, &Steps::all());
            Array::read(outputs)
        };
        // The first layer's outputs are not dropped on the way in, nor the last one's on the way out.
        for (layers, is_dropped) in [(1, false), (2, true)] {
            let recurrent = config.clone().with_layers(layers).init(device);
            let inference = run(&recurrent.valid(), &device.clone().without_autodiff());
            let training = run(&recurrent, device);
            assert_eq!(training != inference, is_dropped, "{layers} layers");
        }
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    device::each(|device| {
        let gru = recurrent(CellKind::Gru, [3, 4], device);
        let input = || Tensor::zeros([2, 5, 3], device);
        let state = |hidden: Tensor<2>| Some(vec![RecurrentState::of_hidden(hidden)]);
        for (message, lens) in [
            ("lens expected 2 of at most 5, got [5]", vec![5]),
            ("at most 5, got [5, 6]", vec![5, 6]),
        ] {
            let steps = Steps::of_lens(lens);
            refuses(message, || gru.forward(input(), None, &steps));
        }
        let none = "initial states expected 1, one for each layer and direction, got 0";
        let narrow = state(Tensor::zeros([2, 3], device));
        let mut cases = vec![
            (none, Some(Vec::new())),
            ("initial state expected [1, 2, 4], got [1, 2, 3]", narrow),
        ];
        if device::computes(device, DType::F64) {
            let double = state(Tensor::zeros([2, 4], (device, DType::F64)));
            let message = "initial state expected of type F32, as the gates, got F64";
            cases.push((message, double));
        }
        for (message, initial) in cases {
            refuses(message, || gru.forward(input(), initial, &Steps::all()));
        }
        let lstm = recurrent(CellKind::Lstm, [3, 4], device);
        let initial = state(Tensor::zeros([2, 4], device));
        let expected = "state of a Lstm expected with the cell c";
        refuses(expected, || lstm.forward(input(), initial, &Steps::all()));
        let mut peepholes = RecurrentConfig::new(CellKind::Lstm, 3, 4).init(device);
        peepholes.layers[0].peepholes = Some(Param::from_tensor(Tensor::zeros([3, 5], device)));
        let expected = "peepholes expected [3, 4], got [3, 5]";
        refuses(expected, || peepholes.forward(input(), None, &Steps::all()));
        let expected = "recurrent layer: last axis of the input expected 3, got 4 in [2, 5, 4]";
        refuses(expected, || {
            gru.layers[0].gates(Tensor::zeros([2, 5, 4], device))
        });
    });
}
