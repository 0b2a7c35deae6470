//! The time of a training step on two processes of one thread, beside one process of one thread and of two, and
//! beside PyTorch's `DistributedDataParallel`; and the gain that more machines promise.
//!
//! `cargo bench -p attention-benches --features mpi --bench machines`; see benches/README.md.

mod cost;
#[path = "../seq2seq/sizes.rs"]
mod sizes;

use std::hint::spin_loop;
use std::io;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use attention_benches::baselines::{python, scripts};
use attention_benches::machine::{among_threads, limit_threads, processor};
use attention_core::AdditiveAttentionConfig;
use attention_seq2seq::data::Examples;
use attention_seq2seq::train::{Communicator, Split, launched_processes};
use attention_seq2seq::{
    Example, Interrupter, Result, RunDir, Seq2SeqConfig, TrainConfig, TrainEvent, Training, Vocab,
};
use burn::tensor::Device;
use clap::Parser;
use serde::{Deserialize, Serialize};
use serde_json::json;

use cost::{Cost, Link};
use sizes::Sizes;

/// The time of the steps that are measured in a round, in seconds.
const MEASURED: f64 = 4.0;
/// The fewest steps of a round; the first is not measured.
const STEPS: usize = 4;
/// The number of batches: more than any machine learns from in a round.
const BATCHES: usize = 1000;

/// Times training steps on several processes; see benches/README.md.
#[derive(Parser)]
struct Options {
    /// The number of rounds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only the sizes whose title contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The delay of a message on the link between machines, in microseconds.
    #[arg(long, value_name = "N", default_value_t = 50.0)]
    delay_us: f64,
    /// The rate of the link, in megabits a second.
    #[arg(long, value_name = "N", default_value_t = 10_000.0)]
    mbit: f64,
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
    /// The number of the size that this process trains for a round.
    #[arg(long, hide = true)]
    work: Option<usize>,
    #[arg(long, hide = true, default_value_t = 1)]
    batch: usize,
    /// Whether messages take as long as on the link.
    #[arg(long, hide = true)]
    linked: bool,
}

impl Options {
    fn link(&self) -> Link {
        Link {
            delay: self.delay_us / 1e3,
            rate: self.mbit * 1e3 / 8.0,
        }
    }
}

/// The figures of a round.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct Figures {
    /// The median time of a step, in milliseconds.
    step: f64,
    /// The median time in a step in which a process sends, receives and waits for the other.
    communication: f64,
    /// The size of the message of a step.
    bytes: usize,
}

/// Processes and threads that train.
#[derive(Clone)]
struct Candidate {
    name: &'static str,
    processes: usize,
    threads: usize,
    /// The number of parts of the batch; one part is trained on.
    parts: usize,
    linked: bool,
    is_pytorch: bool,
}

impl Candidate {
    const fn new(name: &'static str, processes: usize, threads: usize) -> Self {
        Self {
            name,
            processes,
            threads,
            parts: 1,
            linked: false,
            is_pytorch: false,
        }
    }
}

/// Each library's.
const BOTH: [Candidate; 3] = [
    Candidate::new("1 process, 1 thread", 1, 1),
    Candidate::new("1 process, 2 threads", 1, 2),
    Candidate::new("2 processes, 1 thread each", 2, 1),
];

/// Ours alone.
const OURS: [Candidate; 2] = [
    Candidate {
        linked: true,
        ..Candidate::new("2 processes, over the link", 2, 1)
    },
    Candidate {
        parts: 2,
        ..Candidate::new("1 thread, half the batch", 1, 1)
    },
];

fn main() -> io::Result<()> {
    let options = Options::parse();
    if let Some(number) = options.work {
        return work(&Sizes::ALL[number], &options).map_err(io::Error::other);
    }
    println!("{}", processor());
    println!("the link: {} us, {} Mbit/s", options.delay_us, options.mbit);
    let mut candidates = [&BOTH[..], &OURS].concat();
    match python() {
        Ok(_) => candidates.extend(BOTH.map(|candidate| Candidate {
            is_pytorch: true,
            ..candidate
        })),
        Err(reason) => println!("skipped: PyTorch: {reason}"),
    }
    // As the program trains dates; with wider layers; with two layers of 512.
    for number in [1, 0, 2] {
        let sizes = Sizes::ALL[number];
        if !sizes.to_string().contains(&options.only) {
            continue;
        }
        println!("{sizes}");
        let mut rounds = vec![Vec::new(); candidates.len()];
        for _ in 0..options.rounds {
            for (candidate, rounds) in candidates.iter().zip(&mut rounds) {
                rounds.push(candidate.run(number, &options)?);
            }
        }
        let figures: Vec<Figures> = rounds
            .into_iter()
            .map(|rounds| median(rounds, |figures| figures.step))
            .collect();
        let (ours, pytorch) = figures.split_at(BOTH.len() + OURS.len());
        let (of_ours, of_pytorch) = candidates.split_at(ours.len());
        print(of_ours, ours);
        print(of_pytorch, pytorch);
        let [one, two, processes, linked, half] = std::array::from_fn(|index| ours[index]);
        let steps = [one, half, two].map(|figures| figures.step);
        let cost = Cost::fit(sizes.batch, processes.bytes, steps, processes.communication);
        cost.print(options.link(), linked.step);
    }
    Ok(())
}

impl Candidate {
    /// A round in processes of its own.
    fn run(&self, number: usize, options: &Options) -> io::Result<Figures> {
        let mut command = match self.is_pytorch {
            true => self.of_pytorch(Sizes::ALL[number])?,
            false => self.of_ours(number, options)?,
        };
        let threads = self.threads.to_string();
        for variable in ["ATTENTION_THREADS", "OMP_NUM_THREADS"] {
            command.env(variable, &threads);
        }
        let output = command.output()?;
        let figures = serde_json::from_slice(&output.stdout);
        figures.map_err(|_| io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    fn of_ours(&self, number: usize, options: &Options) -> io::Result<Command> {
        let program = std::env::current_exe()?;
        let mut command = match self.processes {
            1 => Command::new(program),
            processes => {
                let mut mpirun = Command::new("mpirun");
                mpirun.args(["-n", &processes.to_string(), "--bind-to", "core"]);
                mpirun.arg(program);
                mpirun
            }
        };
        let batch = Sizes::ALL[number].batch / self.parts;
        command
            .args(["--work", &number.to_string(), "--batch", &batch.to_string()])
            .args(["--delay-us", &options.delay_us.to_string()])
            .args(["--mbit", &options.mbit.to_string()])
            .args(self.linked.then_some("--linked"));
        Ok(command)
    }

    fn of_pytorch(&self, sizes: Sizes) -> io::Result<Command> {
        let mut command = Command::new(python().map_err(io::Error::other)?);
        if self.processes > 1 {
            let processes = self.processes.to_string();
            command.args([
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
            ]);
            command.arg(processes);
        }
        let batch = sizes.batch / self.processes;
        let setup = json!({
            "candidate": "eager",
            "sizes": Sizes { batch, ..sizes },
            "seconds": MEASURED,
            "steps": STEPS,
        });
        command
            .arg(scripts().join("data_parallel.py"))
            .arg(setup.to_string());
        Ok(command)
    }
}

fn median<T: Copy + Default>(mut values: Vec<T>, key: impl Fn(&T) -> f64) -> T {
    values.sort_by(|a, b| key(a).total_cmp(&key(b)));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Prints the figures beside the first two, of one process.
fn print(candidates: &[Candidate], figures: &[Figures]) {
    for (candidate, its) in candidates.iter().zip(figures) {
        let library = match candidate.is_pytorch {
            true => "PyTorch, ",
            false => "",
        };
        println!(
            "  {:<36}{:>9.1} ms{:>8.2} of one thread's steps{:>8.2} of two threads'{:>7.1} % communication{:>8.2} MB",
            format!("{library}{}", candidate.name),
            its.step,
            figures[0].step / its.step,
            figures[1].step / its.step,
            100.0 * its.communication / its.step,
            its.bytes as f64 / 1e6,
        );
    }
}

/// Processes whose messages are timed, and take as long as on a link, if there is one.
struct Timed {
    ranks: Box<dyn Communicator>,
    link: Option<Link>,
    /// The bytes of each message, and its time in milliseconds.
    messages: Mutex<Vec<(usize, f64)>>,
}

impl Communicator for Timed {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn size(&self) -> usize {
        self.ranks.size()
    }

    fn local_rank(&self) -> usize {
        self.ranks.local_rank()
    }

    fn abort(&self, code: u8) -> ! {
        self.ranks.abort(code)
    }

    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()> {
        let bytes = size_of_val(values);
        let started = Instant::now();
        self.ranks.all_reduce_sum(values)?;
        let summed = Instant::now();
        let of_link = |link: Link| link.all_reduce(self.size(), bytes);
        let wait = self.link.map_or(0.0, of_link);
        while milliseconds(summed) < wait {
            spin_loop();
        }
        let message = (bytes, milliseconds(started));
        self.messages
            .lock()
            .expect("no thread panics with it")
            .push(message);
        Ok(())
    }
}

fn milliseconds(since: Instant) -> f64 {
    1e3 * since.elapsed().as_secs_f64()
}

/// Trains for a round, and prints the figures.
fn work(sizes: &Sizes, options: &Options) -> Result<()> {
    let threads = limit_threads();
    let ranks = Timed {
        ranks: launched_processes()?,
        link: options.linked.then(|| options.link()),
        messages: Mutex::default(),
    };
    let sizes = Sizes {
        batch: options.batch,
        ..*sizes
    };
    let mut ends = Vec::new();
    if let Err(error) = among_threads(threads, || train(&sizes, &ranks, &mut ends)) {
        eprintln!("{error}");
        // The others wait for this one.
        ranks.abort(2);
    }
    let steps = ends
        .windows(2)
        .map(|pair| 1e3 * (pair[1] - pair[0]).as_secs_f64());
    let messages = ranks.messages.lock().expect("no thread panics with it");
    let bytes = messages.iter().map(|message| message.0).max().unwrap_or(0);
    let of_steps = messages.iter().filter(|message| message.0 == bytes);
    let figures = Figures {
        step: median(steps.collect(), |&time| time),
        communication: median(of_steps.map(|message| message.1).collect(), |&time| time),
        bytes,
    };
    if ranks.rank() == 0 {
        println!("{}", json!(figures));
    }
    Ok(())
}

/// Trains until there is enough to measure; the ends of the steps.
fn train(sizes: &Sizes, ranks: &Timed, ends: &mut Vec<Instant>) -> Result<()> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let hidden = sizes.hidden;
    let attention = AdditiveAttentionConfig::new(hidden, hidden, hidden).init(&device);
    let interrupter = Interrupter::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let training = Training {
        model: Seq2SeqConfig::new(sizes.source_vocab, sizes.target_vocab)
            .with_embedding_size(sizes.embedding)
            .with_hidden_size(hidden)
            .with_layers(sizes.layers)
            .init(attention, &device),
        train: examples(sizes, BATCHES * sizes.batch),
        valid: examples(sizes, 1),
        config: TrainConfig {
            batch_size: sizes.batch,
            ..TrainConfig::default()
        },
        run: RunDir::new(folder.path()),
        resume_from: None,
        interrupter: interrupter.clone(),
        observer: |event: &TrainEvent| {
            let TrainEvent::BatchDone {
                split: Split::Train,
                ..
            } = event
            else {
                return;
            };
            ends.push(Instant::now());
            if ends.len() > STEPS && ends[0].elapsed().as_secs_f64() > MEASURED {
                interrupter.stop();
            }
        },
    };
    training.launch_on(ranks)?;
    Ok(())
}

/// Examples of one length, with every token of the vocabularies.
fn examples(sizes: &Sizes, count: usize) -> Examples {
    let tokens = |seed: usize, len: usize, vocab: usize| {
        let ordinary = vocab - Vocab::SPECIAL_TOKENS;
        let token = |at| (Vocab::SPECIAL_TOKENS + (31 * seed + 7 * at) % ordinary) as u32;
        (0..len).map(token).collect()
    };
    let examples = (0..count).map(|seed| Example {
        source: tokens(seed, sizes.source_len, sizes.source_vocab),
        target: tokens(seed, sizes.target_len - 1, sizes.target_vocab),
    });
    examples.collect::<Vec<_>>().into()
}
