//! The gain of each large bet of the CPU path: a training step, a decoding step and attention of many queries, with all
//! of them and without each.
//!
//! `cargo bench -p attention-benches --bench bets`; see benches/README.md.

#[path = "seq2seq/sizes.rs"]
#[allow(dead_code, reason = "no baseline is asked")]
mod sizes;
#[path = "seq2seq/training.rs"]
#[allow(dead_code, reason = "no step is taken apart here")]
mod training;

use std::io;

use attention_benches::compare::{Candidate, Local, compare};
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::{Report, print_measured};
use attention_benches::tensors::{Call, call_of, random};
use attention_core::{AdditiveAttentionConfig, Mask};
use attention_kernels::tuning as forms;
use burn::tensor::Device;
use burn_fused_layers::backend::OPERATIONS;
use burn_fused_layers::paths;
use cpu_kernels::tuning;

use sizes::Sizes;

/// Switches something on or off.
type Switch = fn(bool);

/// The bets, each with its switch.
const BETS: [(&str, Switch); 9] = [
    ("threads that stay awake", tuning::set_spins),
    ("buffers that are kept", tuning::set_keeps_buffers),
    ("deferred gradients", paths::set_defers),
    // Burn's matrix product is the crate `gemm`.
    ("own products", |on| set_kernel("linear", on)),
    ("own rows", |on| set_kernel("select_rows", on)),
    ("own loss", |on| set_kernel("linear_cross_entropy", on)),
    ("tanh of near elements", forms::set_near_tanh),
    ("bounded tanh", forms::set_bounded_tanh),
    ("quotients of two units", forms::set_quotients),
];

fn set_kernel(name: &str, on: bool) {
    paths::set_kernel(OPERATIONS.named(name), on);
}

fn main() -> io::Result<()> {
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    let [large, dates, _, words] = Sizes::ALL;
    for (_, device) in options.devices() {
        for sizes in [large, dates, words] {
            let make = || -> Call { Box::new(training::step(&sizes, &device.clone().autodiff())) };
            measure(&sizes.to_string(), &make, &options, &mut report);
        }
        for (keys, scale) in [("", 1.0), (", keys far out", FAR)] {
            let title = format!("decoding step b64 q1 k64 d256 h256{keys}");
            measure(&title, &|| decode(&device, scale), &options, &mut report);
        }
        let title = "additive b8 q128 k128 d256 h256, forward";
        measure(title, &|| attend(&device), &options, &mut report);
    }
    report.write(options.json.as_deref())
}

fn measure(title: &str, make: &dyn Fn() -> Call, options: &Options, report: &mut Report) {
    if !options.wants(title) {
        return;
    }
    println!("{title}");
    let mut candidates: Vec<Box<dyn Candidate>> = vec![Box::new(Local::new("all", make()))];
    for (name, switch) in BETS {
        let mut call = make();
        candidates.push(Box::new(Local::new(format!("without {name}"), move || {
            switch(false);
            call();
            switch(true);
        })));
    }
    let results = compare(&mut candidates, options.rounds);
    print_measured(&results);
    for result in &results {
        report.add(title, "bet", result);
    }
}

/// Keys times this have many hidden units beyond 7.5 in each block, which are not near; see [`forms`].
const FAR: f64 = 20.0;

/// A step of a decoder whose keys, times `scale`, were projected before.
fn decode(device: &Device, scale: f64) -> Call {
    const BATCH: usize = 64;
    const KEYS: usize = 64;
    const SIZE: usize = 256;
    let module = AdditiveAttentionConfig::new(SIZE, SIZE, SIZE).init(device);
    let [keys, values] = [(); 2].map(|()| random([BATCH, KEYS, SIZE], device));
    let queries = random([BATCH, 1, SIZE], device);
    let memory = module.prepare(keys * scale, values, Mask::none());
    call_of(device, move || {
        module.attend(queries.clone(), &memory, Mask::none())
    })
}

/// Additive attention of many queries.
fn attend(device: &Device) -> Call {
    const BATCH: usize = 8;
    const ROWS: usize = 128;
    const SIZE: usize = 256;
    let module = AdditiveAttentionConfig::new(SIZE, SIZE, SIZE).init(device);
    let inputs = [(); 3].map(|()| random([BATCH, ROWS, SIZE], device));
    call_of(device, move || {
        let [queries, keys, values] = inputs.clone();
        module.forward(queries, keys, values, Mask::none())
    })
}
