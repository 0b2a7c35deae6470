//! Attention on a GPU by its kernel, by its definition, and by what the device chooses (`autotune`).
//!
//! `cargo bench -p attention-benches --bench gpu_choices --no-default-features --features wgpu,autotune`; see
//! benches/README.md.

use std::io;

use attention_benches::compare::{Candidate, Local, Measured, compare};
use attention_benches::devices::on_host;
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, print_measured};
use attention_benches::tensors::{Call, call, numbers, random};
use attention_core::functional::{AttentionOptions, additive_attention, dot_product_attention};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::paths::{Operation, set_auto, set_kernel};

const HEADS: usize = 8;
/// Features of queries, keys and values; hidden units of additive scores.
const SIZE: usize = 64;

/// Scores, with numbers of queries and as many keys.
const WORKS: [(Score, usize); 3] = [
    (Score::DotProduct, 128),
    (Score::DotProduct, 512),
    (Score::Additive, 128),
];

#[derive(Clone, Copy)]
enum Score {
    DotProduct,
    Additive,
}

/// Operations that a device chooses the path of.
const OPERATIONS: [Operation; 4] = [
    Operation::DotProductAttention,
    Operation::AdditiveAttention,
    Operation::AdditiveScore,
    Operation::MaskedSoftmax,
];

/// The path of all of them.
type Choose = fn(Operation);

const PATHS: [(&str, Choose); 3] = [
    ("kernel", |operation| set_kernel(operation, true)),
    ("definition", |operation| set_kernel(operation, false)),
    ("auto", set_auto),
];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    if !cfg!(feature = "autotune") {
        println!("without the feature `autotune`: `auto` is the kernel\n");
    }
    for (backend, device) in options.devices() {
        if on_host(&device) {
            println!("skipped: {backend} is no GPU");
            continue;
        }
        for (score, rows) in WORKS {
            for (pass, device) in [
                ("forward", device.clone()),
                ("training", device.clone().autodiff()),
            ] {
                let name = match score {
                    Score::DotProduct => "dot product",
                    Score::Additive => "additive",
                };
                let title =
                    format!("{name} b1 heads {HEADS} q{rows} k{rows} d{SIZE} {pass}, {backend}");
                if !options.wants(&title) {
                    continue;
                }
                println!("{title}");
                let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
                for (name, choose) in PATHS {
                    let call = on_path(choose, attention(score, rows, &device));
                    candidates.push(Box::new(Local::new(name, call).on(&device)));
                }
                let results = compare(&mut candidates, options.rounds);
                print_measured(&results);
                println!("  {}", verdict(&results));
                for result in &results {
                    report.add(&title, pass, result);
                }
            }
        }
    }
    for operation in OPERATIONS {
        set_auto(operation);
    }
    report.write(options.json.as_deref())
}

/// The call, on a path.
fn on_path(choose: Choose, mut call: Call) -> Call {
    Box::new(move || {
        OPERATIONS.into_iter().for_each(choose);
        call();
    })
}

/// Attention; on a training device, with the gradients of queries, keys and values.
fn attention(score: Score, rows: usize, device: &Device) -> Call {
    let inputs = [(); 3].map(|()| random([1, HEADS, rows, SIZE], device));
    let options = AttentionOptions::default();
    match score {
        Score::DotProduct => {
            let attend = move |[queries, keys, values]: [Tensor<4>; 3]| {
                dot_product_attention(queries, keys, values, &options)
            };
            call(inputs, &[], attend)
        }
        Score::Additive => {
            let weight = numbers([SIZE], device);
            let attend = move |[queries, keys, values]: [Tensor<4>; 3]| {
                additive_attention(queries, keys, values, weight.clone(), &options)
            };
            call(inputs, &[], attend)
        }
    }
}

/// How near the last of the results comes to the better one of the others.
fn verdict(results: &[Measured]) -> String {
    let medians = results.iter().map(|result| result.median().as_secs_f64());
    let medians: Vec<f64> = medians.collect();
    let [kernel, definition, auto] = medians[..] else {
        unreachable!("three paths");
    };
    let better = kernel.min(definition);
    format!(
        "auto takes {:.2} times what the better one does, {:.2} ms and {:.2} ms",
        auto / better,
        1e3 * auto,
        1e3 * better
    )
}
