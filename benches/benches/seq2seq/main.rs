//! The time of a training step of the sequence-to-sequence model, beside the same model in PyTorch, and where it goes.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench seq2seq`; see benches/README.md.

mod parts;
mod sizes;
mod training;

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local, Measured, compare};
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::{Report, mebibytes, milliseconds};
use serde_json::json;

use sizes::Sizes;

fn main() -> io::Result<()> {
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let options = Options::from_command_line();
    let mut baselines = Baselines::start("seq2seq.py", threads);
    let mut report = Report::start(threads);
    report.add_baselines(&baselines);
    for sizes in Sizes::ALL {
        let title = sizes.to_string();
        if !options.wants(&title) {
            continue;
        }
        println!("{title}");
        let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
        for (backend, device) in options.devices() {
            let device = device.autodiff();
            let step = Local::new(format!("ours, {backend}"), training::step(&sizes, &device));
            candidates.push(Box::new(step.on(&device)));
        }
        if let Ok(baselines) = &mut baselines {
            for name in ["PyTorch eager", "torch.compile"] {
                let setup = json!({ "candidate": name, "sizes": sizes });
                baselines.add_to(&mut candidates, name, setup);
            }
        }
        let steps = compare(&mut candidates, options.rounds);
        drop(candidates);
        print_steps(&sizes, &steps);
        for step in &steps {
            report.add(&title, "step", step);
        }
    }

    let title = Sizes::PROFILED.to_string();
    if options.wants(&title) {
        for (backend, device) in options.devices() {
            let device = device.autodiff();
            let parts = parts::profile(&Sizes::PROFILED, backend, &device, options.rounds);
            for part in &parts {
                report.add(&title, &format!("part, {backend}"), part);
            }
        }
    }
    report.write(options.json.as_deref())
}

fn print_steps(sizes: &Sizes, steps: &[Measured]) {
    println!(
        "  {:<20}{:>10}{:>24}{:>16}{:>16}",
        "candidate", "ms", "target tokens a second", "ratio to ours", "peak extra MiB"
    );
    let ours = steps[0].median();
    for step in steps {
        let time = step.median();
        println!(
            "  {:<20}{:>10.1}{:>24.0}{:>16.2}{:>16}",
            step.name,
            milliseconds(time),
            (sizes.batch * sizes.target_len) as f64 / time.as_secs_f64(),
            time.as_secs_f64() / ours.as_secs_f64(),
            mebibytes(step.memory),
        );
    }
}
