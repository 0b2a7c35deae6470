//! The time of a training step on two processes of one thread, beside one process of one thread and of two.
//!
//! `cargo bench -p attention-benches --features mpi --bench machines`; see benches/README.md.

#[path = "seq2seq/sizes.rs"]
mod sizes;

use std::io;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use attention_benches::machine::{among_threads, limit_threads, processor};
use attention_core::AdditiveAttentionConfig;
use attention_seq2seq::data::Examples;
use attention_seq2seq::train::{Communicator, Mpi, Split, launched_processes};
use attention_seq2seq::{
    Example, Interrupter, Result, RunDir, Seq2SeqConfig, TrainConfig, TrainEvent, Training, Vocab,
};
use burn::tensor::Device;
use clap::Parser;
use serde::{Deserialize, Serialize};

use sizes::Sizes;

/// The variable that has this program train one of the sizes, by its number.
const WORK: &str = "ATTENTION_MACHINES_WORK";
/// The time of the steps that are measured in a round.
const MEASURED: Duration = Duration::from_secs(4);
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
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The figures of a round.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Figures {
    /// The median time of a step, in milliseconds.
    step: f64,
    /// The mean time of a step in which a process sends, receives and waits for the other.
    communication: f64,
    /// The size of the message of a step.
    bytes: usize,
}

/// Processes and threads that train.
struct Candidate {
    name: &'static str,
    processes: usize,
    threads: usize,
}

const CANDIDATES: [Candidate; 3] = [
    Candidate {
        name: "1 process, 1 thread",
        processes: 1,
        threads: 1,
    },
    Candidate {
        name: "1 process, 2 threads",
        processes: 1,
        threads: 2,
    },
    Candidate {
        name: "2 processes, 1 thread each",
        processes: 2,
        threads: 1,
    },
];

fn main() -> io::Result<()> {
    if let Ok(number) = std::env::var(WORK) {
        let number: usize = number.parse().expect("the number of a size");
        return work(&Sizes::ALL[number]).map_err(io::Error::other);
    }
    let options = Options::parse();
    println!("{}", processor());
    // As the program trains dates; with wider layers; with two layers of 512.
    for number in [1, 0, 2] {
        let title = Sizes::ALL[number].to_string();
        if !title.contains(&options.only) {
            continue;
        }
        println!("{title}");
        let mut rounds = CANDIDATES.map(|_| Vec::new());
        for _ in 0..options.rounds {
            for (candidate, rounds) in CANDIDATES.iter().zip(&mut rounds) {
                rounds.push(candidate.run(number)?);
            }
        }
        print(rounds.map(median));
    }
    Ok(())
}

impl Candidate {
    /// A round in processes of its own.
    fn run(&self, size: usize) -> io::Result<Figures> {
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
        command
            .env(WORK, size.to_string())
            .env("ATTENTION_THREADS", self.threads.to_string());
        let output = command.output()?;
        let figures = serde_json::from_slice(&output.stdout);
        figures.map_err(|_| io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// The round whose steps take the median time.
fn median(mut rounds: Vec<Figures>) -> Figures {
    rounds.sort_by(|a, b| a.step.total_cmp(&b.step));
    rounds[rounds.len() / 2]
}

fn print(figures: [Figures; CANDIDATES.len()]) {
    let [one, two, ..] = figures.map(|figures| figures.step);
    for (Candidate { name, .. }, figures) in CANDIDATES.iter().zip(figures) {
        let Figures {
            step,
            communication,
            bytes,
        } = figures;
        println!(
            "  {name:<28}{step:>9.1} ms{:>8.2} of one thread's steps{:>8.2} of two threads'{:>7.1} % communication\
             {:>8.2} MB",
            one / step,
            two / step,
            100.0 * communication / step,
            bytes as f64 / 1e6,
        );
    }
}

/// Processes whose messages are timed.
struct Timed {
    mpi: Mpi,
    /// The time, the messages and the bytes of the largest.
    sum: Mutex<(Duration, usize, usize)>,
}

impl Communicator for Timed {
    fn rank(&self) -> usize {
        self.mpi.rank()
    }

    fn size(&self) -> usize {
        self.mpi.size()
    }

    fn all_reduce_sum(&self, values: &mut [f32]) -> Result<()> {
        let started = Instant::now();
        let end = self.mpi.all_reduce_sum(values);
        let mut sum = self.sum.lock().expect("no thread panics with it");
        sum.0 += started.elapsed();
        sum.1 += 1;
        sum.2 = sum.2.max(size_of_val(values));
        end
    }
}

/// Trains for a round, and prints the figures.
fn work(sizes: &Sizes) -> Result<()> {
    let threads = limit_threads();
    let several = launched_processes() > 1;
    let timed = several.then(Mpi::start).transpose()?.map(|mpi| Timed {
        mpi,
        sum: Mutex::default(),
    });
    let mut ends = Vec::new();
    among_threads(threads, || train(sizes, timed.as_ref(), &mut ends))?;
    let mut steps: Vec<f64> = ends
        .windows(2)
        .map(|pair| 1e3 * (pair[1] - pair[0]).as_secs_f64())
        .collect();
    steps.sort_by(f64::total_cmp);
    let sum = timed
        .as_ref()
        .map(|timed| *timed.sum.lock().expect("no thread panics with it"));
    let (time, messages, bytes) = sum.unwrap_or_default();
    if timed.is_none_or(|timed| timed.rank() == 0) {
        let figures = Figures {
            step: steps[steps.len() / 2],
            communication: 1e3 * time.as_secs_f64() / messages.max(1) as f64,
            bytes,
        };
        println!("{}", serde_json::json!(figures));
    }
    Ok(())
}

/// Trains until there is enough to measure; the ends of the steps.
fn train(sizes: &Sizes, timed: Option<&Timed>, ends: &mut Vec<Instant>) -> Result<()> {
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
            if ends.len() > STEPS && ends[0].elapsed() > MEASURED {
                interrupter.stop();
            }
        },
    };
    match timed {
        Some(timed) => training.launch_on(timed)?,
        None => training.launch()?,
    };
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
