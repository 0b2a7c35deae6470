//! Recurrent layers compute what ONNX says of its operators GRU and LSTM, within ONNX's own tolerance.

use attention_tests::{Array, OnnxCase, device, onnx_reference, parameters};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig, RecurrentState, Steps};

/// The tolerance of ONNX's suite.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// The cases of ONNX's suite, and those that are made for `tests/reference`.
const OF_SUITE: usize = 6;
const MADE: usize = 10;

/// Where ONNX has the gates, in our order: its orders are z, r, h and i, o, f, c.
fn order(cell: CellKind) -> &'static [usize] {
    match cell {
        CellKind::Gru => &[1, 0, 2],
        CellKind::Lstm => &[0, 2, 3, 1],
    }
}

/// Where ONNX has the peepholes, in our order: its order is i, o, f.
const PEEPHOLES: [usize; 3] = [0, 2, 1];

/// A case, with axes as without `layout`: states `[directions, batch, hidden_size]`.
struct Case<'a> {
    case: &'a OnnxCase,
    cell: CellKind,
}

impl Case<'_> {
    fn is_bidirectional(&self) -> bool {
        self.case.direction == "bidirectional"
    }

    /// `[batch, steps, input_size]`
    fn input(&self) -> Array {
        let input = &self.case.inputs["X"];
        match self.case.layout {
            0 => input.permute(&[1, 0, 2]),
            _ => input.clone(),
        }
    }

    /// A state among inputs or outputs.
    fn state(&self, state: &Array) -> Array {
        match self.case.layout {
            0 => state.clone(),
            _ => state.permute(&[1, 0, 2]),
        }
    }

    /// The outputs after each step, `[batch, steps, directions, hidden_size]`, if the case has them.
    fn outputs(&self) -> Option<Array> {
        let outputs = self.case.outputs.get("Y")?;
        Some(match self.case.layout {
            0 => outputs.permute(&[2, 0, 1, 3]),
            _ => outputs.clone(),
        })
    }

    fn steps(&self) -> Steps {
        let lens = self.case.inputs.get("sequence_lens");
        Steps {
            lens: lens.map(|lens| lens.data.iter().map(|&len| len as usize).collect()),
            is_reversed: self.case.direction == "reverse",
        }
    }

    fn hidden_size(&self) -> usize {
        self.case.inputs["R"].shape[2]
    }

    /// A parameter by its path here, such as `reversed.0.hidden.weight` or `layers.0.peepholes`.
    fn parameter(&self, path: &str) -> Array {
        let path: Vec<&str> = path.split('.').collect();
        let direction = usize::from(path[0] == "reversed");
        let (size, order) = (self.hidden_size(), order(self.cell));
        let [_, _, of, kind] = path[..] else {
            let peepholes = &self.case.inputs["P"];
            return Array::from_fn(&[3, size], |at| {
                peepholes.at(&[direction, PEEPHOLES[at[0]] * size + at[1]])
            });
        };
        let width = order.len() * size;
        let row = |column: usize| order[column / size] * size + column % size;
        if kind == "weight" {
            let weight = &self.case.inputs[if of == "input" { "W" } else { "R" }];
            return Array::from_fn(&[weight.shape[2], width], |at| {
                weight.at(&[direction, row(at[1]), at[0]])
            });
        }
        let first = if of == "input" { 0 } else { width };
        Array::from_fn(&[width], |at| {
            let bias = self.case.inputs.get("B");
            bias.map_or(0.0, |bias| bias.at(&[direction, first + row(at[0])]))
        })
    }

    fn recurrent(&self, device: &Device, dtype: DType) -> Recurrent {
        let input_size = self.case.inputs["X"].shape[2];
        let recurrent = RecurrentConfig::new(self.cell, input_size, self.hidden_size())
            .with_bidirectional(self.is_bidirectional())
            .with_reset_after(self.cell == CellKind::Lstm || self.case.linear_before_reset == 1)
            .with_peepholes(self.case.inputs.contains_key("P"))
            .init(device);
        let recurrent = parameters::changed(recurrent, |path, _| self.parameter(path));
        parameters::cast(recurrent, dtype)
    }

    fn initial(&self, device: &Device, dtype: DType) -> Option<Vec<RecurrentState>> {
        let [hidden, cell] = ["initial_h", "initial_c"].map(|name| {
            let state = self.case.inputs.get(name)?;
            Some(self.state(state).tensor::<3>(device, dtype))
        });
        let hidden = hidden?;
        let of = |state: &Tensor<3>, n| state.clone().narrow(0, n, 1).squeeze_dim(0);
        let of_direction = |n| RecurrentState {
            hidden: of(&hidden, n),
            cell: cell.as_ref().map(|cell| of(cell, n)),
        };
        Some((0..hidden.dims()[0]).map(of_direction).collect())
    }

    fn check(&self, device: &Device, dtype: DType) {
        let (steps, recurrent) = (self.steps(), self.recurrent(device, dtype));
        let input = self.input().tensor(device, dtype);
        let (outputs, last) = recurrent.forward(input, self.initial(device, dtype), &steps);
        let outputs = Array::read(outputs);
        if let Some(expected) = self.outputs() {
            let is_padding = |example: usize, step: usize| {
                let lens = steps.lens.as_ref();
                lens.is_some_and(|lens| step >= lens[example])
            };
            // After the steps of an example ours are arbitrary.
            let got = Array::from_fn(&expected.shape, |at| match *at {
                [example, step, _, _] if is_padding(example, step) => 0.0,
                [example, step, direction, unit] => {
                    outputs.at(&[example, step, direction * self.hidden_size() + unit])
                }
                _ => panic!("Y expected four axes, got {at:?}"),
            });
            self.check_close("Y", dtype, &got, &expected);
        }
        let [hidden, cells]: [Vec<_>; 2] = [
            last.iter().map(|state| state.hidden.clone()).collect(),
            last.iter().filter_map(|state| state.cell.clone()).collect(),
        ];
        for (name, states) in [("Y_h", hidden), ("Y_c", cells)] {
            if let Some(expected) = self.case.outputs.get(name) {
                let got = Array::read(Tensor::stack::<3>(states, 0));
                self.check_close(name, dtype, &got, &self.state(expected));
            }
        }
    }

    fn check_close(&self, name: &str, dtype: DType, got: &Array, expected: &Array) {
        assert_eq!(got.shape, expected.shape, "{}: {name}", self.case.name);
        for (got, expected) in got.data.iter().zip(&expected.data) {
            let what = format!("{:?} {}: {name}, {dtype:?}", self.cell, self.case.name);
            let is_close = (got - expected).abs() <= ABSOLUTE + RELATIVE * expected.abs();
            assert!(is_close, "{what}: {got} instead of {expected}");
        }
    }
}

/// All of its suite, and more: GRUs with `linear_before_reset=1`, initial states and lengths.
#[test]
fn layers_are_the_operators() {
    for (cell, file) in [(CellKind::Gru, "onnx_gru"), (CellKind::Lstm, "onnx_lstm")] {
        let reference = onnx_reference(file);
        let (of_suite, made): (Vec<_>, Vec<_>) = (reference.iter())
            .map(|case| Case { case, cell })
            .partition(|case| case.case.name.starts_with("test_"));
        assert_eq!([of_suite.len(), made.len()], [OF_SUITE, MADE]);
        let (name, count) = (file.replace("onnx_", "ONNX "), of_suite.len());
        eprintln!("{name}: {count} of {count} cases by one call");
        device::each_both_ways(|device| {
            for case in of_suite.iter().chain(&made) {
                for dtype in device::dtypes(device) {
                    case.check(device, dtype);
                }
            }
        });
    }
}
