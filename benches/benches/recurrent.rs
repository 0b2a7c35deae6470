//! A recurrent layer alone, beside Burn's own and PyTorch's: forward, and forward with the gradients of the input and
//! of all parameters.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench recurrent`; see benches/README.md.

use std::io;

use attention_benches::bench::{Bench, PASSES};
use attention_benches::tensors::{Call, call_of, numbers, random};
use burn::nn::gru::GruConfig;
use burn::nn::lstm::LstmConfig;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, Steps};
use serde_json::json;

const BATCH: usize = 64;
const STEPS: usize = 64;
/// The size of inputs and states.
const SIZE: usize = 256;

/// The outputs of all steps.
type Layer = Box<dyn Fn(Tensor<3>) -> Tensor<3>>;

fn main() -> io::Result<()> {
    Bench::run("recurrent.py", |bench| {
        for (cell, kind) in [("GRU", CellKind::Gru), ("LSTM", CellKind::Lstm)] {
            for pass in PASSES {
                let title = format!("{cell} b{BATCH} steps {STEPS} size {SIZE}, {pass}");
                let calls = |device: &Device| {
                    vec![
                        ("ours", call(ours(kind, device), device)),
                        ("Burn", call(burns(kind, device), device)),
                    ]
                };
                bench.time([&title, pass], calls, &["PyTorch"], |_| {
                    json!({"cell": cell, "pass": pass, "batch": BATCH, "steps": STEPS, "size": SIZE})
                })?;
            }
        }
        Ok(())
    })
}

fn ours(kind: CellKind, device: &Device) -> Layer {
    let layer = RecurrentConfig::new(kind, SIZE, SIZE).init(device);
    Box::new(move |input| layer.forward(input, None, &Steps::all()).0)
}

fn burns(kind: CellKind, device: &Device) -> Layer {
    match kind {
        CellKind::Gru => {
            let layer = GruConfig::new(SIZE, SIZE, true).init(device);
            Box::new(move |input| layer.forward(input, None))
        }
        CellKind::Lstm => {
            let layer = LstmConfig::new(SIZE, SIZE, true).init(device);
            Box::new(move |input| layer.forward(input, None).0)
        }
    }
}

/// The outputs, or where the device trains the gradients.
fn call(layer: Layer, device: &Device) -> Call {
    let shape = [BATCH, STEPS, SIZE];
    let input = random(shape, device);
    if !device.is_autodiff() {
        return call_of(device, move || layer(input.clone()));
    }
    let output_gradient = numbers(shape, device);
    // Gradients of the parameters are computed before the gradient of the input, and dropped.
    call_of(device, move || {
        let outputs = layer(input.clone()) * output_gradient.clone();
        let gradients = outputs.sum().backward();
        let gradient = input.grad(&gradients);
        gradient.expect("the input has a part in the outputs")
    })
}
