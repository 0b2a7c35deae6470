//! Recurrent layers with the parameters of PyTorch's modules have the results of those.

use std::collections::BTreeMap;

use attention_import::load_recurrent;
use attention_tests::{
    Array, RecurrentCase, assert_close, assert_says, device, parameters, recurrent_reference,
    reference_path,
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig, RecurrentState, Steps};

const CELLS: [CellKind; 2] = [CellKind::Gru, CellKind::Lstm];

/// The name of a kind's files.
fn file(cell: CellKind) -> &'static str {
    match cell {
        CellKind::Gru => "gru",
        CellKind::Lstm => "lstm",
    }
}

fn cases(cell: CellKind) -> Vec<RecurrentCase> {
    let cases = recurrent_reference(file(cell));
    assert_eq!(cases.len(), 5);
    cases
}

/// PyTorch's name of a parameter, and the parameter in Burn's layout.
fn of_pytorch(path: &str, arrays: &BTreeMap<String, Array>) -> Array {
    let [direction, layer, of, kind] = path.split('.').collect::<Vec<_>>().try_into().unwrap();
    let suffix = ["", "_reverse"][usize::from(direction == "reversed")];
    let of = if of == "input" { "ih" } else { "hh" };
    let array = &arrays[&format!("{kind}_{of}_l{layer}{suffix}")];
    match kind {
        "weight" => array.permute(&[1, 0]),
        _ => array.clone(),
    }
}

fn config(case: &RecurrentCase, cell: CellKind) -> RecurrentConfig {
    let input_size = case.inputs["input"].shape[2];
    let directions = if case.bidirectional { 2 } else { 1 };
    let hidden_size = case.outputs["output"].shape[2] / directions;
    RecurrentConfig::new(cell, input_size, hidden_size)
        .with_layers(case.layers)
        .with_bidirectional(case.bidirectional)
}

fn steps(case: &RecurrentCase) -> Steps {
    match &case.lengths {
        Some(lens) => Steps::of_lens(lens.clone()),
        None => Steps::all(),
    }
}

/// `[batch, steps, size]` with 0 at padding.
fn without_padding(case: &RecurrentCase, array: &Array) -> Array {
    let lens = case.lengths.as_ref();
    array.masked_fill(0.0, |at| lens.is_some_and(|lens| at[1] >= lens[at[0]]))
}

/// Runs the layers, and holds outputs, last states and all gradients to PyTorch's.
fn check(case: &RecurrentCase, recurrent: &Recurrent, (device, dtype): (&Device, DType)) {
    let tolerance = if dtype == DType::F64 { 1e-8 } else { 2e-5 };
    let check = |of: &str, got: &Array, expected: &Array| {
        let what = format!("{}: {of}, {dtype:?}", case.name);
        assert_close(what, got, expected, tolerance);
    };
    let input = case.inputs["input"].tensor::<3>(device, dtype);
    let input = input.require_grad();
    let initial = ["h_0", "c_0"].map(|name| {
        let states = case.inputs.get(name);
        states.map(|states| states.leaf::<3>(device, dtype))
    });
    let [h, c] = &initial;
    let of_layer = |states: &Tensor<3>, layer| states.clone().narrow(0, layer, 1).squeeze_dim(0);
    let states = h.as_ref().map(|h| {
        let states = (0..h.dims()[0]).map(|layer| RecurrentState {
            hidden: of_layer(h, layer),
            cell: c.as_ref().map(|c| of_layer(c, layer)),
        });
        states.collect()
    });
    let (outputs, last) = recurrent.forward(input.clone(), states, &steps(case));
    let clean = without_padding(case, &Array::read(outputs.clone()));
    check("output", &clean, &case.outputs["output"]);

    let of_outputs = without_padding(case, &case.inputs["grad_output"]);
    let mut loss = (outputs * of_outputs.tensor(device, dtype)).sum();
    let hidden = last.iter().map(|state| state.hidden.clone()).collect();
    let hidden: Tensor<3> = Tensor::stack(hidden, 0);
    let what = "hidden";
    check(what, &Array::read(hidden.clone()), &case.outputs["hidden"]);
    if let Some(of_hidden) = case.inputs.get("grad_hidden") {
        loss = loss + (hidden * of_hidden.tensor(device, dtype)).sum();
    }
    if let Some(expected) = case.outputs.get("cell") {
        let cells = last.into_iter().map(|state| state.cell.unwrap()).collect();
        let cells: Tensor<3> = Tensor::stack(cells, 0);
        check("cell", &Array::read(cells.clone()), expected);
        let of_cells = case.inputs["grad_cell"].tensor(device, dtype);
        loss = loss + (cells * of_cells).sum();
    }

    let gradients = loss.backward();
    for (path, got) in parameters::gradients(recurrent, Some(&gradients)) {
        check(&path, &got, &of_pytorch(&path, &case.gradients));
    }
    let inputs = [Some(&input), h.as_ref(), c.as_ref()];
    for (name, input) in ["input", "h_0", "c_0"].into_iter().zip(inputs) {
        let Some(input) = input else { continue };
        let got = Array::read(input.grad(&gradients).unwrap());
        check(name, &got, &case.gradients[name]);
    }
}

#[test]
fn outputs_and_gradients_are_those_of_pytorch() {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for cell in CELLS {
                for case in cases(cell) {
                    let recurrent = config(&case, cell).init(device);
                    let recurrent =
                        parameters::changed(recurrent, |path, _| of_pytorch(path, &case.inputs));
                    check(&case, &parameters::cast(recurrent, dtype), (device, dtype));
                }
            }
        }
    });
}

#[test]
fn loaded_parameters_compute_what_pytorch_did() {
    device::each_training(|device| {
        for cell in CELLS {
            let name = file(cell);
            let case = cases(cell).pop().unwrap();
            assert_eq!(case.name, "layers");
            for (file, prefix) in [
                (format!("{name}.safetensors"), ""),
                (format!("{name}_nested.pt"), "encoder.rnn."),
            ] {
                let recurrent = config(&case, cell).init(device);
                let recurrent = load_recurrent(recurrent, reference_path(&file), prefix).unwrap();
                check(&case, &recurrent, (device, DType::F32));
            }
        }
    });
}

#[test]
fn a_file_that_does_not_fit_is_an_error_that_says_why() {
    let device = &device::plain()[0];
    let config = || {
        RecurrentConfig::new(CellKind::Gru, 5, 7)
            .with_layers(2)
            .with_bidirectional(true)
    };
    let says = |config: RecurrentConfig, file: &str, parts: &[&str]| {
        let path = reference_path(file);
        let error = load_recurrent(config.init(device), &path, "").unwrap_err();
        assert_says(&error, &path.display().to_string());
        assert_says(&error, parts);
    };
    let gru = "gru.safetensors";
    let mut wide = config();
    wide.input_size = 6;
    #[rustfmt::skip]
    let cases: [(_, _, &[&str]); 7] = [
        (config(), "missing.pt", &["No such file"]),
        (config().with_layers(3), gru, &["`weight_ih_l2`", "found 16 others", "`weight_ih_l0`"]),
        (config().with_layers(1), gru, &["no tensor `weight_ih_l1`", "the number of layers is 1"]),
        (config().with_bidirectional(false), gru, &["no tensor `weight_ih_l0_reverse`", "one direction"]),
        (wide, gru, &["weight_ih_l0", "[21, 6]", "[21, 5]"]),
        (config(), "lstm.safetensors", &["[21, 5]", "[28, 5]"]),
        (config().with_reset_after(false), gru, &["PyTorch's cells", "a reset before the product"]),
    ];
    for (config, file, parts) in cases {
        says(config, file, parts);
    }
}
