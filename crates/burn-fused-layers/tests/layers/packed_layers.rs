//! Layers for many calls in one pass: the same results and gradients as in single calls.

use attention_tests::{Array, assert_all_close, assert_close, device};
use burn::nn::Linear;
use burn::tensor::{DType, Device, Gradients, Int, Tensor};
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, RecurrentState, Steps};
use burn_fused_layers::{EmbeddingTable, PackedLinear, linear};

use crate::cells;

fn leaf<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    Array::draw(seed, &shape).leaf(device, DType::F32)
}

fn gradient<const D: usize>(tensor: &Tensor<D>, gradients: &Gradients) -> Array {
    Array::read(tensor.grad(gradients).unwrap())
}

fn of_parameters(layer: &Linear, gradients: &Gradients) -> [Array; 2] {
    let bias = layer.bias.as_ref().unwrap().val();
    let weight = gradient(&layer.weight.val(), gradients);
    [weight, gradient(&bias, gradients)]
}

/// Few rows, and many.
const BATCHES: [usize; 2] = [3, 70];

#[test]
fn cells_are_the_layer() {
    device::each_training(|device| {
        let (steps, size) = (4, 19);
        for config in cells([2, size]) {
            let (kind, recurrent) = (config.cell, config.init(device));
            let layer = &recurrent.layers[0];
            for batch in BATCHES {
                let gates = leaf(1, [batch, steps, kind.gates() * size], device);
                let parts = [2, 3].map(|seed| leaf(seed, [batch, size], device));
                let parts = &parts[..kind.states()];
                let initial = RecurrentState {
                    hidden: parts[0].clone(),
                    cell: parts.get(1).cloned(),
                };
                let weights = Array::draw(4, &[batch, steps, size]).f32::<3>(device);
                let run = |is_cell: bool| {
                    let (outputs, last) = if is_cell {
                        let cell = layer.cell();
                        let mut state = initial.clone();
                        let step = |step| {
                            let gates = gates.clone().narrow(1, step, 1).squeeze_dim(1);
                            state = cell.forward(gates, state.clone());
                            state.hidden.clone()
                        };
                        let outputs = Tensor::stack((0..steps).map(step).collect(), 1);
                        (outputs, state)
                    } else {
                        let initial = Some(initial.clone());
                        layer.forward_gates(gates.clone(), initial, &Steps::all())
                    };
                    let mut loss = (outputs.clone() * weights.clone()).sum();
                    let mut results = vec![Array::read(outputs)];
                    if let Some(cell) = last.cell {
                        loss = loss + cell.clone().sum();
                        results.push(Array::read(cell));
                    }
                    let gradients = loss.backward();
                    results.extend(of_parameters(&layer.hidden, &gradients));
                    let peepholes = layer.peepholes.iter();
                    results.extend(peepholes.map(|of| gradient(&of.val(), &gradients)));
                    results.push(gradient(&gates, &gradients));
                    results.extend(parts.iter().map(|of| gradient(of, &gradients)));
                    results
                };
                assert_all_close(format!("{config} by steps"), &run(true), &run(false), 2e-6);
            }
        }
    });
}

#[test]
fn packed_linear_layers_are_linear_layers() {
    device::each_training(|device| {
        for [from, to] in [[21, 70], [1, 1]] {
            let weight = leaf(1, [from, to], device);
            let bias = leaf(2, [to], device);
            let rows = [(3, 64), (4, 1), (5, 530), (6, 13)];
            let inputs = rows.map(|(seed, rows)| leaf(seed, [1, rows, from], device));
            let run = |is_packed: bool| {
                let packed = PackedLinear::new(weight.clone(), Some(bias.clone()));
                let mut loss = weight.clone().square().sum();
                let mut results = Vec::new();
                for input in &inputs {
                    let output = match is_packed {
                        true => packed.forward(input.clone()),
                        false => linear(input.clone(), weight.clone(), Some(bias.clone())),
                    };
                    results.push(Array::read(output.clone()));
                    loss = loss + output.square().sum();
                }
                let gradients = loss.backward();
                results.push(gradient(&weight, &gradients));
                results.push(gradient(&bias, &gradients));
                results.extend(inputs.iter().map(|input| gradient(input, &gradients)));
                results
            };
            assert_all_close("packed", &run(true), &run(false), 2e-6);
        }
    });
}

/// A weight that changes between two passes is packed anew for each.
#[test]
fn each_pass_packs_the_weight_of_its_time() {
    device::each_training(|device| {
        let input = leaf(1, [20, 5], device);
        let mut weight = leaf(2, [5, 7], device);
        for _ in 0..2 {
            let packed = PackedLinear::new(weight.clone(), None);
            let outputs = packed.forward(input.clone()) + packed.forward(input.clone());
            let expected = linear(input.clone(), weight.clone(), None) * 2.0;
            assert_close("outputs", outputs.clone(), expected, 1e-6);
            let gradients = outputs.square().sum().backward();
            weight = (weight.clone() - weight.grad(&gradients).unwrap()).detach();
            weight = weight.require_grad();
        }
    });
}

/// One layer in two graphs, each with a backward pass of its own.
#[test]
fn a_layer_takes_any_number_of_passes() {
    device::each_training(|device| {
        let (input, weight) = (leaf(1, [20, 5], device), leaf(2, [5, 7], device));
        let packed = PackedLinear::new(weight.clone(), None);
        let run = || {
            let outputs = packed.forward(input.clone()) + packed.forward(input.clone());
            gradient(&weight, &outputs.square().sum().backward())
        };
        let first = run();
        assert!(first.magnitude() > 0.0);
        assert_eq!(run(), first);
    });
}

/// Without gradients, and in half precision, where nothing is deposited.
#[test]
fn packed_weights_of_other_types() {
    device::each(device::in_all_types(|(device, dtype)| {
        let draw = |seed, shape: [usize; 2]| Array::draw(seed, &shape).tensor::<2>(device, dtype);
        let (input, weight) = (draw(1, [20, 5]), draw(2, [5, 7]));
        let packed = PackedLinear::new(weight.clone(), None);
        let expected = Array::read(linear(input.clone(), weight, None));
        for _ in 0..2 {
            let (got, tolerance) = (packed.forward(input.clone()), 4.0 * device::epsilon(dtype));
            assert_close(format!("{dtype:?}"), got, &expected, tolerance);
        }
    }));
}

#[test]
fn a_cell_of_no_examples() {
    device::each_training(|device| {
        let gru = RecurrentConfig::new(CellKind::Gru, 2, 3).init(device);
        let state = RecurrentState::of_hidden(Tensor::zeros([0, 3], device));
        let gates = Tensor::zeros([0, 9], device);
        let state = gru.layers[0].cell().forward(gates, state);
        assert_eq!(state.hidden.dims(), [0, 3]);
    });
}

#[test]
fn no_rows_and_no_features() {
    device::each_training(|device| {
        for [rows, from, to] in [[0, 3, 2], [4, 0, 2], [4, 3, 0]] {
            let input = leaf(1, [1, rows, from], device);
            let (weight, bias) = (leaf(2, [from, to], device), leaf(3, [to], device));
            let packed = PackedLinear::new(weight, Some(bias.clone()));
            let output = packed.forward(input);
            assert_eq!(output.dims(), [1, rows, to]);
            let expected = Array::read(bias).data.repeat(rows);
            assert_eq!(Array::read(output).data, expected);
        }
    });
}

/// Calls with many indices and few, with repeated ones, beside a reader of the table itself.
#[test]
fn rows_of_a_table() {
    device::each_training(|device| {
        let table = leaf(1, [37, 19], device);
        let calls: [&[i32]; 3] = [&[3, 36, 3, 0, 3, 17], &[5], &[36; 40]];
        let run = |is_shared: bool| {
            let shared = EmbeddingTable::new(table.clone());
            let mut loss = table.clone().square().sum();
            let mut results = Vec::new();
            for indices in calls {
                let indices = Tensor::<1, Int>::from_data(indices, device);
                let rows = match is_shared {
                    true => shared.rows(indices),
                    false => table.clone().select(0, indices),
                };
                results.push(Array::read(rows.clone()));
                loss = loss + rows.powi_scalar(3).sum();
            }
            results.push(gradient(&table, &loss.backward()));
            results
        };
        assert_all_close("rows", &run(true), &run(false), 2e-6);
    });
}

/// Five hundred calls, each of whose gradients is below the rounding of their sum.
#[test]
fn gradients_of_many_calls_are_added_in_f32() {
    device::each_training(device::in_half_types(|(device, dtype)| {
        let leaf = |dims: &[usize]| Array::full(dims, 0.5);
        let weight = leaf(&[3, 2]).leaf::<2>(device, dtype);
        let bias = leaf(&[2]).leaf::<1>(device, dtype);
        let table = leaf(&[4, 3]).leaf::<2>(device, dtype);
        let packed = PackedLinear::new(weight.clone(), Some(bias.clone()));
        let shared = EmbeddingTable::new(table.clone());
        let losses = (0..500).map(|_| {
            let rows = shared.rows(Tensor::from_ints([1, 1], device));
            let output = packed.forward(rows);
            assert_eq!(output.dtype(), dtype);
            output.cast(DType::F32).sum()
        });
        let loss = losses.reduce(|a, b| a + b).unwrap();
        let gradients = loss.backward();
        let of_table = Array::from_fn(&[4, 3], |at| f64::from(at[0] == 1) * 1000.0);
        let tolerance = device::epsilon(dtype);
        #[rustfmt::skip]
        let cases = [
            ("weight", gradient(&weight, &gradients), Array::full(&[3, 2], 500.0)),
            ("bias", gradient(&bias, &gradients), Array::full(&[2], 1000.0)),
            ("table", gradient(&table, &gradients), of_table),
        ];
        for (name, got, expected) in cases {
            assert_close(format!("{name}, {dtype:?}"), &got, &expected, tolerance);
        }
    }));
}
