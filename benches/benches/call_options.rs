//! The cost of each option of dot-product attention: soft-cap, a bias of pairs, of keys, of distances, sinks, beside
//! the same without any.
//!
//! `cargo bench -p attention-benches --bench call_options`; see benches/README.md.

use std::io;

use attention_benches::compare::{Candidate, Local, compare};
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::{Report, print_measured};
use attention_benches::tensors::{Call, call, numbers, random};
use attention_core::functional::{AttentionOptions, dot_product_attention};
use burn::tensor::{Device, Tensor};

const HEADS: usize = 8;
const SIZE: usize = 64;
/// Examples, queries and keys.
const WORKS: [[usize; 3]; 3] = [[8, 128, 128], [2, 1024, 1024], [8, 1, 1024]];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    for (backend, device) in options.devices() {
        for work @ [batch, queries, keys] in WORKS {
            for (pass, device) in [
                ("forward", device.clone()),
                ("both", device.clone().autodiff()),
            ] {
                let title =
                    format!("b{batch} heads {HEADS} q{queries} k{keys} d{SIZE} {pass}, {backend}");
                if !options.wants(&title) {
                    continue;
                }
                println!("{title}");
                let candidates = calls(&device, work).into_iter();
                let mut candidates: Vec<Box<dyn Candidate>> = candidates
                    .map(|(name, call)| -> Box<dyn Candidate> { Box::new(Local::new(name, call)) })
                    .collect();
                let results = compare(&mut candidates, options.rounds);
                print_measured(&results);
                for result in &results {
                    report.add(&title, pass, result);
                }
            }
        }
    }
    report.write(options.json.as_deref())
}

/// Attention with each option; on a training device, with the gradients of queries, keys and values.
fn calls(device: &Device, [batch, queries, keys]: [usize; 3]) -> Vec<(&'static str, Call)> {
    let none = AttentionOptions::default;
    let bias = |shape: [usize; 4]| Some(numbers(shape, device));
    let options = [
        ("without", none()),
        (
            "soft-cap",
            AttentionOptions {
                soft_cap: Some(30.0),
                ..none()
            },
        ),
        (
            "bias of pairs",
            AttentionOptions {
                bias: bias([1, HEADS, queries, keys]),
                ..none()
            },
        ),
        (
            "bias of keys",
            AttentionOptions {
                bias: bias([batch, 1, 1, keys]),
                ..none()
            },
        ),
        (
            "distances",
            AttentionOptions {
                relative_bias: bias([1, HEADS, 1, queries + keys - 1]),
                ..none()
            },
        ),
        (
            "sinks",
            AttentionOptions {
                sinks: Some(numbers([HEADS], device)),
                ..none()
            },
        ),
    ];
    let inputs = [queries, keys, keys].map(|rows| random([batch, HEADS, rows, SIZE], device));
    let calls = options.into_iter().map(|(name, options)| {
        let attend = move |[queries, keys, values]: [Tensor<4>; 3]| {
            dot_product_attention(queries, keys, values, &options)
        };
        (name, call(inputs.clone(), &[], attend))
    });
    calls.collect()
}
