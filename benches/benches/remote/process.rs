//! The processes of the bench: workers, and trainings that take turns.

use std::env::current_exe;
use std::io::{self, BufRead, BufReader, Write, stdin, stdout};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use attention_benches::machine::among_threads;
use attention_core::remote::with_operations;
use attention_seq2seq::{
    Example, Interrupter, RunDir, Split, TrainConfig, TrainEvent, Training, open_devices,
};
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::sizes::Sizes;

/// The line of a training that waits for its next epoch.
const READY: &str = "ready";

/// The part of a process.
#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    Worker {
        threads: usize,
    },
    Trainer {
        devices: String,
        threads: usize,
        sizes: Sizes,
        folder: PathBuf,
    },
}

impl Role {
    pub(crate) fn parse(text: &str) -> io::Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// Starts a process with this role.
    fn start(&self) -> io::Result<(Child, ChildStdin, BufReader<ChildStdout>)> {
        let mut child = Command::new(current_exe()?)
            .args(["--role", &serde_json::to_string(self)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = pipes else {
            return Err(io::Error::other("a process without pipes"));
        };
        Ok((child, stdin, BufReader::new(stdout)))
    }

    pub(crate) fn play(self) -> io::Result<()> {
        match self {
            Self::Worker { threads } => {
                start_threads(threads)?;
                serve()
            }
            Self::Trainer {
                devices,
                threads,
                sizes,
                folder,
            } => {
                start_threads(threads)?;
                among_threads(threads, || train(&devices, sizes, RunDir::new(folder)))
            }
        }
    }
}

fn start_threads(threads: usize) -> io::Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().map_err(io::Error::other)
}

fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    say(listener.local_addr()?)?;
    let device = Device::flex();
    let server = with_operations(RemoteServer::new([device.clone()]), &device);
    let transport = WebSocketTransport::from_listener(listener);
    server.serve(transport).map_err(io::Error::other)
}

/// Trains an epoch for each line that it is given, after it has said that it is ready, and says how many seconds the
/// steps took.
fn train(devices: &str, sizes: Sizes, run: RunDir) -> io::Result<()> {
    let mut devices = open_devices(devices).map_err(io::Error::other)?.into_iter();
    let first = devices.next().unwrap_or_default();
    let mut begun = Instant::now();
    let observer = |event: &TrainEvent| {
        let goes_on = match event {
            TrainEvent::Started { .. } | TrainEvent::EpochEnded(_) => {
                say(READY).and_then(|()| heard())
            }
            TrainEvent::BatchDone {
                split: Split::Train,
                done,
                batches,
                ..
            } if done == batches => say(begun.elapsed().as_secs_f64()).and_then(|()| heard()),
            _ => return,
        };
        if goes_on.is_err() {
            // The bench has ended.
            std::process::exit(0);
        }
        begun = Instant::now();
    };
    let training = Training {
        model: sizes.model(&first.autodiff()),
        train: sizes.examples(),
        valid: vec![Example {
            source: vec![4],
            target: vec![4],
        }]
        .into(),
        config: TrainConfig {
            epochs: usize::MAX,
            batch_size: sizes.batch,
            patience: usize::MAX,
            ..TrainConfig::default()
        },
        run,
        resume_from: None,
        further_devices: devices.map(Device::autodiff).collect(),
        interrupter: Interrupter::new(),
        observer,
    };
    training.launch().map(drop).map_err(io::Error::other)
}

fn say(text: impl std::fmt::Display) -> io::Result<()> {
    let mut stdout = stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Waits for a line.
fn heard() -> io::Result<()> {
    match stdin().lock().read_line(&mut String::new())? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// A worker, which ends with this.
pub(crate) struct Worker {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Worker {
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let (child, _, mut stdout) = Role::Worker { threads }.start()?;
        let address = read(&mut stdout)?.parse().map_err(io::Error::other)?;
        Ok(Self { child, address })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A training, which ends with this.
pub(crate) struct Trainer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Trainer {
    /// Starts it, and lets it train an epoch that does not count.
    pub(crate) fn start(devices: &str, threads: usize, sizes: Sizes) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let role = Role::Trainer {
            devices: devices.to_string(),
            threads,
            sizes,
            folder: folder.path().join("run"),
        };
        let (child, stdin, stdout) = role.start()?;
        let mut trainer = Self {
            child,
            stdin,
            stdout,
            _folder: folder,
        };
        trainer.await_ready()?;
        trainer.epoch(|| ())?;
        Ok(trainer)
    }

    /// The mean time of a step of an epoch, and what `look` sees right after its steps.
    pub(crate) fn epoch<T>(&mut self, look: impl FnOnce() -> T) -> io::Result<(Duration, T)> {
        writeln!(self.stdin)?;
        let seconds: f64 = read(&mut self.stdout)?.parse().map_err(io::Error::other)?;
        let seen = look();
        // Validation and checkpoint belong to no step.
        writeln!(self.stdin)?;
        self.await_ready()?;
        let step = Duration::from_secs_f64(seconds / Sizes::STEPS as f64);
        Ok((step, seen))
    }

    fn await_ready(&mut self) -> io::Result<()> {
        let said = read(&mut self.stdout)?;
        let unexpected = || io::Error::other(format!("expected {READY:?}, got {said:?}"));
        (said == READY).then_some(()).ok_or_else(unexpected)
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: &mut BufReader<ChildStdout>) -> io::Result<String> {
    let mut line = String::new();
    match stdout.read_line(&mut line)? {
        0 => Err(io::Error::other("a process of the bench has ended")),
        _ => Ok(line.trim().to_string()),
    }
}
