//! A training step on the devices of workers, over the loopback interface: its time, what it sends, and what that says
//! of other networks and of more machines.
//!
//! `cargo bench -p attention-benches --features remote --bench remote`; see benches/README.md.

mod cost;
mod link;
mod process;
mod sizes;

use std::io;
use std::time::Duration;

use attention_benches::machine::processor;
use clap::Parser;

use cost::{Cost, Network};
use link::{Link, Traffic, Wire};
use process::{Role, Trainer, Worker};
use sizes::Sizes;

/// Times training steps on the devices of workers.
#[derive(Parser)]
struct Args {
    /// The number of rounds.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only the sizes whose title contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The part of a process that the bench starts.
    #[arg(long, hide = true, value_name = "JSON")]
    role: Option<String>,
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A network slower than the loopback interface, for the check of predictions.
const SLOW: Network = Network {
    round_trip: Duration::from_millis(10),
    bits_per_second: 100e6,
};

/// The network that is predicted for.
const FAST: Network = Network {
    round_trip: Duration::from_micros(100),
    bits_per_second: 10e9,
};

fn main() -> io::Result<()> {
    let args = Args::parse();
    if let Some(role) = args.role {
        return Role::parse(&role)?.play();
    }
    println!("{}, all processes on this machine", processor());
    for sizes in Sizes::ALL {
        if sizes.title().contains(&args.only) {
            measure(sizes, args.rounds)?;
        }
    }
    Ok(())
}

/// A training to time.
struct Case {
    name: &'static str,
    trainer: Trainer,
    times: Vec<Duration>,
    /// To be stopped after the trainer.
    _workers: Vec<Worker>,
}

impl Case {
    /// A training in its own process.
    fn local(name: &'static str, threads: usize, sizes: Sizes) -> io::Result<Self> {
        Self::on(name, "flex", threads, sizes, Vec::new())
    }

    /// A training on workers with so many threads.
    fn remote(name: &'static str, workers: &[usize], sizes: Sizes) -> io::Result<Self> {
        let workers = workers.iter().map(|threads| Worker::start(*threads));
        let workers: Vec<Worker> = workers.collect::<io::Result<_>>()?;
        let devices: Vec<String> = workers
            .iter()
            .map(|it| format!("ws://{}", it.address))
            .collect();
        Self::on(name, &devices.join(","), 1, sizes, workers)
    }

    fn on(
        name: &'static str,
        devices: &str,
        threads: usize,
        sizes: Sizes,
        workers: Vec<Worker>,
    ) -> io::Result<Self> {
        Ok(Self {
            name,
            trainer: Trainer::start(devices, threads, sizes)?,
            times: Vec::new(),
            _workers: workers,
        })
    }

    fn median(&self) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted[sorted.len() / 2]
    }
}

fn measure(sizes: Sizes, rounds: u32) -> io::Result<()> {
    println!("\n{}", sizes.title());
    let half = sizes.with_batch(sizes.batch / 2);
    let mut cases = [
        Case::local("local, 2 threads", 2, sizes)?,
        Case::local("local, 1 thread", 1, sizes)?,
        Case::remote("a worker of 2 threads", &[2], sizes)?,
        Case::remote("a worker of 1 thread", &[1], sizes)?,
        Case::remote("the same, half the batch", &[1], half)?,
        Case::remote("two workers of 1 thread", &[1, 1], sizes)?,
    ];
    for _ in 0..rounds {
        for case in &mut cases {
            case.times.push(case.trainer.epoch(|| ())?.0);
        }
    }
    println!("  {:<28}{:>10}{:>16}", "", "ms a step", "steps a second");
    for case in &cases {
        let seconds = case.median().as_secs_f64();
        println!(
            "  {:<28}{:>10.1}{:>16.2}",
            case.name,
            1e3 * seconds,
            1.0 / seconds
        );
    }
    let [_, local, _, one, half, two] = cases.each_ref().map(Case::median);
    drop(cases);

    println!(
        "  {:<28}{:>12}{:>12}{:>12}",
        "a step sends", "kB there", "kB back", "answers"
    );
    let free = Network::LOOPBACK;
    let (_, of_one) = through_links(&[1], sizes, free)?;
    let (_, of_two) = through_links(&[1, 1], sizes, free)?;
    let named = [("a worker", &of_one), ("two workers", &of_two)];
    for (name, all) in named {
        for traffic in all {
            print!("  {name:<28}");
            println!(
                "{:>12.1}{:>12.1}{:>12.1}",
                1e-3 * traffic.there,
                1e-3 * traffic.back,
                traffic.answers
            );
        }
    }
    let added = one.as_secs_f64() - local.as_secs_f64();
    println!(
        "  a worker of 1 thread takes {:.2} times the local step: {:.1} ms more",
        one.as_secs_f64() / local.as_secs_f64(),
        1e3 * added
    );

    let cost = Cost::fit(sizes.batch, one, half, two, [&of_one, &of_two]);
    println!("  {cost}");
    for (name, workers) in [("a worker", &[1][..]), ("two workers", &[1, 1])] {
        let (measured, _) = through_links(workers, sizes, SLOW)?;
        let predicted = cost.step(sizes.batch, workers.len(), SLOW);
        println!(
            "  {name} at {SLOW}: predicted {:.0} ms, measured {:.0} ms ({:.2})",
            1e3 * predicted,
            1e3 * measured.as_secs_f64(),
            measured.as_secs_f64() / predicted
        );
    }
    println!("  at {FAST}, machines of one thread as here:");
    for machines in [2, 4, 8] {
        let alone = cost.step(sizes.batch, 1, FAST);
        let same = alone / cost.step(sizes.batch, machines, FAST);
        let more = machines * sizes.batch;
        let larger = cost.step(more, 1, FAST) / cost.step(more, machines, FAST);
        println!(
            "  {machines} machines: {same:.2} times as fast with this batch, {larger:.2} with {more}; they pay from a \
             batch of {:.0}",
            cost.batch_that_pays(machines, FAST)
        );
    }
    Ok(())
}

/// The time of a step, the median of three epochs, and what it sends to each worker, on a network.
fn through_links(
    workers: &[usize],
    sizes: Sizes,
    network: Network,
) -> io::Result<(Duration, Vec<Traffic>)> {
    let workers = workers.iter().map(|threads| Worker::start(*threads));
    let workers: Vec<Worker> = workers.collect::<io::Result<_>>()?;
    let wire = Wire::new(network);
    let links = workers
        .iter()
        .map(|worker| Link::start(worker.address, wire.clone()));
    let links: Vec<Link> = links.collect::<io::Result<_>>()?;
    let devices: Vec<String> = links
        .iter()
        .map(|it| format!("ws://{}", it.address()))
        .collect();
    let mut trainer = Trainer::start(&devices.join(","), 1, sizes)?;
    let mut times = Vec::new();
    let mut traffic = Vec::new();
    for _ in 0..3 {
        let counts = || links.iter().map(Link::counts).collect::<Vec<_>>();
        let before = counts();
        let (time, after) = trainer.epoch(counts)?;
        times.push(time);
        let both = before.into_iter().zip(after);
        traffic = both
            .map(|(before, after)| after.since(before, Sizes::STEPS))
            .collect();
    }
    times.sort();
    Ok((times[1], traffic))
}
