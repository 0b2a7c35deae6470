//! The costs of attention: ours, the same composed from Burn's operations, and the baselines' in PyTorch and JAX, in
//! one interleaved run.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench attention`; see benches/README.md.

#[cfg(feature = "gpu")]
mod gpu;
mod locals;
mod rows;
mod table;

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Measured};
use attention_benches::devices::{Named, on_host};
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::Report;
use attention_benches::work::{Kind, Work};
use clap::Parser;

use crate::rows::{Row, Rows};

/// Times attention; see benches/README.md.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Small works on a GPU: what a software Vulkan computes in minutes. For trying the bench, not for figures.
    #[cfg(feature = "gpu")]
    #[arg(long)]
    small: bool,
}

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let arguments = Arguments::parse();
    let devices = arguments.options.devices();
    let mut bench = Bench {
        baselines: Baselines::start("attention.py", threads),
        report: Report::start(threads),
        options: arguments.options,
    };
    bench.report.add_baselines(&bench.baselines);
    let hosts = devices.iter().filter(|(_, device)| on_host(device));
    let hosts: Vec<&Named> = hosts.collect();
    for work in works().iter().filter(|_| !hosts.is_empty()) {
        if bench.options.wants(&work.title()) {
            let rows = bench.measure(work, "cpu", || locals::on_hosts(work, &hosts))?;
            table::print_memory(work, &rows);
            println!();
        }
    }
    #[cfg(feature = "gpu")]
    let failed = bench.on_gpus(&devices, arguments.small)?;
    bench.report.write(bench.options.json.as_deref())?;
    #[cfg(feature = "gpu")]
    if !failed.is_empty() {
        return Err(io::Error::other(format!("ours does not run: {failed:?}")));
    }
    Ok(())
}

/// On the host.
fn works() -> Vec<Work> {
    vec![
        Work::additive(Kind::Additive, 8, [128, 128], 256),
        Work::additive(Kind::Additive, 64, [1, 64], 256),
        Work::additive(Kind::Decoding, 64, [1, 64], 256),
        Work::dot_product(8, 128),
        Work::dot_product(2, 1024),
        Work::dot_product(1, 4096),
    ]
}

/// A run.
struct Bench {
    options: Options,
    baselines: Result<Baselines, String>,
    report: Report,
}

impl Bench {
    /// Times a work beside the baselines on the device that they call `device`, and prints the results.
    fn measure(
        &mut self,
        work: &Work,
        device: &str,
        locals: impl FnOnce() -> Rows<Box<dyn Candidate>>,
    ) -> io::Result<Rows<Measured>> {
        println!("{}", work.title());
        let mut candidates = locals();
        if let Ok(baselines) = &mut self.baselines {
            candidates.extend(rows::of_baselines(work, device, baselines));
        }
        let rows = rows::compare_rows(candidates, self.options.rounds);
        if let Ok(baselines) = &mut self.baselines {
            baselines.drop_all().map_err(io::Error::other)?;
        }
        for (pass, measured) in rows.iter().flat_map(Row::passes) {
            self.report.add(&work.title(), pass.name(), measured);
        }
        table::print(&rows);
        Ok(rows)
    }
}
