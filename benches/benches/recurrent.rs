//! A recurrent layer alone, beside Burn's own and PyTorch's: forward, and forward with the gradients of the input and
//! of all parameters.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench recurrent`; see benches/README.md.

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local, compare};
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::{Report, print_measured};
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
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let options = Options::from_command_line();
    let mut baselines = Baselines::start("recurrent.py", threads);
    let mut report = Report::start(threads);
    report.add_baselines(&baselines);
    for (cell, kind) in [("GRU", CellKind::Gru), ("LSTM", CellKind::Lstm)] {
        for pass in ["forward", "forward + backward"] {
            let title = format!("{cell} b{BATCH} steps {STEPS} size {SIZE}, {pass}");
            if !options.wants(&title) {
                continue;
            }
            println!("{title}");
            let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
            for (backend, device) in options.devices() {
                let device = match pass {
                    "forward" => device,
                    _ => device.autodiff(),
                };
                for (name, layer) in [
                    ("ours", ours(kind, &device)),
                    ("Burn", burns(kind, &device)),
                ] {
                    let call = call(layer, &device);
                    let local = Local::new(format!("{name}, {backend}"), call);
                    candidates.push(Box::new(local.on(&device)));
                }
            }
            if let Ok(baselines) = &mut baselines {
                let name = "PyTorch";
                let setup = json!({
                    "cell": cell,
                    "pass": pass,
                    "batch": BATCH,
                    "steps": STEPS,
                    "size": SIZE,
                });
                baselines.add_to(&mut candidates, name, setup);
            }
            let results = compare(&mut candidates, options.rounds);
            drop(candidates);
            print_measured(&results);
            for result in &results {
                report.add(&title, pass, result);
            }
        }
    }
    report.write(options.json.as_deref())
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
        input
            .grad(&gradients)
            .expect("the input has a part in the outputs")
    })
}
