//! What most benches do: works whose calls are timed on every device, beside the baselines.

use std::io;

use burn::tensor::Device;
use serde_json::Value;

use crate::baselines::Baselines;
use crate::compare::{Candidate, Local};
use crate::machine::{among_threads, limit_threads};
use crate::options::Options;
use crate::report::Report;
use crate::tensors::Call;

/// The pass with gradients.
pub const BACKWARD: &str = "forward + backward";

/// The passes that a work has titles for.
pub const PASSES: [&str; 2] = ["forward", BACKWARD];

/// A run of a bench.
pub struct Bench {
    /// The command line.
    pub options: Options,
    baselines: Result<Baselines, String>,
    report: Report,
}

impl Bench {
    /// Does `work` on one of the threads that compute, beside the baselines of `baselines/<script>`; writes the report.
    ///
    /// # Errors
    /// Of `work`, or if the report cannot be written.
    pub fn run(
        script: &str,
        work: impl FnOnce(&mut Self) -> io::Result<()> + Send,
    ) -> io::Result<()> {
        let threads = limit_threads();
        among_threads(threads, || {
            let mut bench = Self {
                options: Options::from_command_line(),
                baselines: Baselines::start(script, threads),
                report: Report::start(threads),
            };
            bench.report.add_baselines(&bench.baselines);
            work(&mut bench)?;
            bench.report.write(bench.options.json.as_deref())
        })
    }

    /// Times a pass of the work called `title`, if it is wanted: the calls on each device, which trains in the pass
    /// [`BACKWARD`]; and `baselines`, each as `setup` describes it.
    ///
    /// # Errors
    /// If the process of the baselines has ended.
    pub fn time(
        &mut self,
        [title, pass]: [&str; 2],
        calls: impl Fn(&Device) -> Vec<(&'static str, Call)>,
        baselines: &[&str],
        setup: impl Fn(&str) -> Value,
    ) -> io::Result<()> {
        if !self.options.wants(title) {
            return Ok(());
        }
        println!("{title}");
        let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
        for (backend, device) in self.options.devices() {
            let device = match pass {
                BACKWARD => device.autodiff(),
                _ => device,
            };
            for (name, call) in calls(&device) {
                let local = Local::new(format!("{name}, {backend}"), call);
                candidates.push(Box::new(local.on(&device)));
            }
        }
        if let Ok(process) = &mut self.baselines {
            for name in baselines {
                process.add_to(&mut candidates, name, setup(name));
            }
        }
        let rounds = self.options.rounds;
        self.report
            .measure([title, pass], candidates, &mut self.baselines, rounds)
    }
}
