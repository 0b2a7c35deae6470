//! The output of a bench, printed and written.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::baselines::Baselines;
use crate::compare::{Candidate, Measured, compare};
use crate::floors::{Floor, Rates};
use crate::machine::{keeps_memory, processor};

/// The results of a run, for `--json`.
pub struct Report(Value);

impl Report {
    /// An empty report; prints what it runs on.
    pub fn start(threads: usize) -> Self {
        let processor = processor();
        let allocator = if keeps_memory() {
            "told to keep memory"
        } else {
            "as installed"
        };
        println!("{processor}, {threads} threads each, allocators {allocator}");
        Self(json!({
            "processor": processor,
            "threads": threads,
            "allocators": allocator,
            "baselines": null,
            "results": [],
            "gpus": [],
            "floors": [],
        }))
    }

    /// Adds and prints which baselines take part.
    pub fn add_baselines(&mut self, baselines: &Result<Baselines, String>) {
        match baselines {
            Ok(baselines) => {
                let named = baselines.versions.as_object().into_iter().flatten();
                let named = named.map(|(name, version)| match version.as_str() {
                    Some(version) => format!("{name} {version}"),
                    None => format!("{name} absent"),
                });
                println!("baselines: {}\n", named.collect::<Vec<_>>().join(", "));
                self.0["baselines"] = baselines.versions.clone();
            }
            Err(reason) => println!("baselines skipped: {reason}\n"),
        }
    }

    /// Times the candidates of a work by turns; prints and adds their results. The baselines forget what was set up.
    ///
    /// # Errors
    /// If the process of the baselines has ended.
    pub fn measure(
        &mut self,
        [work, pass]: [&str; 2],
        mut candidates: Vec<Box<dyn Candidate>>,
        baselines: &mut Result<Baselines, String>,
        rounds: u32,
    ) -> io::Result<()> {
        let results = compare(&mut candidates, rounds);
        drop(candidates);
        if let Ok(baselines) = baselines {
            baselines.drop_all().map_err(io::Error::other)?;
        }
        print_measured(&results);
        for result in &results {
            self.add(work, pass, result);
        }
        Ok(())
    }

    /// Adds the result of one candidate at one work.
    pub fn add(&mut self, work: &str, pass: &str, measured: &Measured) {
        let rounds = measured.rounds.iter().copied().map(milliseconds);
        let result = json!({
            "work": work,
            "pass": pass,
            "candidate": measured.name,
            "median_ms": milliseconds(measured.median()),
            "rounds_ms": rounds.collect::<Vec<_>>(),
            "peak_extra_bytes": measured.memory,
        });
        self.push("results", result);
    }

    /// Adds and prints what a GPU can do.
    pub fn add_gpu(&mut self, device: &str, name: &str, rates: &Rates) {
        let giga = [rates.multiply_adds, rates.reciprocals, rates.bytes].map(|rate| 1e-9 * rate);
        println!(
            "{device}: {name}; in a second {:.4} G multiply-adds, {:.4} G reciprocals, {:.4} GB copied\n",
            giga[0], giga[1], giga[2]
        );
        let gpu = json!({
            "device": device,
            "name": name,
            "multiply_adds_per_s": rates.multiply_adds,
            "reciprocals_per_s": rates.reciprocals,
            "bytes_per_s": rates.bytes,
        });
        self.push("gpus", gpu);
    }

    /// Adds the floor of a work on a GPU.
    pub fn add_floor(&mut self, work: &str, pass: &str, device: &str, floor: &Floor) {
        let floor = json!({
            "work": work,
            "pass": pass,
            "device": device,
            "floor_ms": milliseconds(floor.time),
            "limit": floor.limit,
        });
        self.push("floors", floor);
    }

    fn push(&mut self, list: &str, value: Value) {
        if let Some(list) = self.0[list].as_array_mut() {
            list.push(value);
        }
    }

    /// Writes what was added, if there is a path: whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: Option<&Path>) -> io::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let text = format!("{:#}\n", self.0);
        attention_seq2seq::file::write_file(path, text.as_bytes()).map_err(io::Error::other)?;
        println!("written: {}", path.display());
        Ok(())
    }
}

/// Prints the time and memory of each candidate; ours is the first.
pub fn print_measured(results: &[Measured]) {
    println!(
        "  {:<20}{:>10}{:>16}{:>16}",
        "candidate", "ms", "ratio to ours", "peak extra MiB"
    );
    let ours = results[0].median();
    let digits = if milliseconds(ours) < 1.0 { 4 } else { 2 };
    for result in results {
        let time = result.median();
        println!(
            "  {:<20}{:>10.digits$}{:>16.2}{:>16}",
            result.name,
            milliseconds(time),
            time.as_secs_f64() / ours.as_secs_f64(),
            mebibytes(result.memory),
        );
    }
}

/// A duration in milliseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    1e3 * duration.as_secs_f64()
}

/// Bytes in MiB, or a dash.
pub fn mebibytes(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
        None => "-".to_string(),
    }
}
