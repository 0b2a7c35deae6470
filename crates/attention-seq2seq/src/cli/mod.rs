//! The command line.

mod attend;
mod average;
mod completions;
mod devices;
mod eval;
mod export;
mod info;
mod log;
mod pages;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod train;
mod translate;
mod unknown;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use attention_seq2seq::{
    Error, Result, RunConfig, RunDir, Translator, compiled_in_devices, open_device,
};
use burn::tensor::Device;
use burn_fused_layers::is_in_host_memory;
use clap::{Args, CommandFactory, Parser, Subcommand};

/// Trains sequence-to-sequence models with attention, and translates with them.
#[derive(Parser)]
#[command(name = "seq2seq", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a model on a generated task or on a file of pairs.
    Train(Box<train::TrainArgs>),
    /// Translate texts given as arguments, or the lines of the standard input.
    Translate(Box<translate::TranslateArgs>),
    /// Give the probabilities of given outputs, token by token.
    Score(score::ScoreArgs),
    /// Average the weights of checkpoints, to a run of their mean.
    Average(average::AverageArgs),
    /// Count the errors of a model.
    Eval(eval::EvalArgs),
    /// Show what the outputs of texts attend to: in the terminal, as a picture, or on a page for a browser.
    Attend(attend::AttendArgs),
    /// Answer requests for translations over HTTP.
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Tell what is in the folder of a training: model, settings, figures.
    Info(info::InfoArgs),
    /// Write a model to one file that PyTorch reads.
    Export(export::ExportArgs),
    /// List the devices of this build, and check that attention works on them.
    Devices(devices::DevicesArgs),
    /// Print the completions of a shell.
    Completions(completions::CompletionsArgs),
    /// Write manual pages.
    Man(completions::ManArgs),
}

/// The most threads that are started.
const MOST_THREADS: usize = 1024;

/// The device and its threads.
#[derive(Args)]
struct Machine {
    /// The device: flex, ndarray, wgpu, vulkan, metal, webgpu, cuda or rocm, as compiled in [default: the first
    /// compiled in].
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// The number of threads on a CPU [default: all].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
}

impl Machine {
    /// The name of the device.
    fn name(&self) -> &str {
        let first = || compiled_in_devices().first().copied();
        self.device.as_deref().or_else(first).unwrap_or("none")
    }

    /// Sets the number of threads, which must come before any computation, and opens the device.
    fn open(&self) -> Result<Device> {
        if let Some(threads) = self.threads
            && !(1..=MOST_THREADS).contains(&threads)
        {
            return Err(Error::Config {
                what: "--threads".to_string(),
                expected: format!("1 to {MOST_THREADS}"),
                found: threads.to_string(),
            });
        }
        start_threads(self.threads)?;
        open_device(self.name())
    }
}

/// Starts the threads that compute, one for each core if no number is given. They would start by themselves with the
/// first computation, and panic where a limit of the process forbids it.
fn start_threads(threads: Option<usize>) -> Result<()> {
    let started = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .spawn_handler(start_thread)
        .build_global();
    started.map_err(|reason| Error::Config {
        what: "--threads".to_string(),
        expected: "a number that the limits of this process allow to start".to_string(),
        found: reason.to_string(),
    })
}

/// Starts a thread, and waits until it runs. A thread that has its stack, and lacks memory for what the standard
/// library does next in it, ends the process: so there must be some to spare, which no other thread is about to take.
fn start_thread(worker: rayon::ThreadBuilder) -> io::Result<()> {
    const STACK: usize = 2 << 20;
    let mut spare = Vec::<u8>::new();
    spare
        .try_reserve_exact(2 * STACK)
        .map_err(|_| ErrorKind::OutOfMemory)?;
    drop(spare);
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        // The receiver waits.
        let _ = sender.send(());
        worker.run();
    };
    thread::Builder::new().stack_size(STACK).spawn(run)?;
    receiver.recv().map_err(io::Error::other)
}

/// A trained model, or several that translate as one.
#[derive(Args)]
struct Model {
    /// The folder of a training: its model is the best epoch, or the newest while training goes on. Several, each after
    /// a --model of its own, translate as one, by the mean of their probabilities.
    #[arg(long = "model", value_name = "DIR", default_value = "runs/dates")]
    models: Vec<PathBuf>,
    /// The most tokens of an output; one that reaches them is cut off, and a note says so [default: those of the
    /// longest target learned, a quarter more, and two].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_length: Option<usize>,
    #[command(flatten)]
    machine: Machine,
}

impl Model {
    /// The folder of the first model, which stands for all.
    fn folder(&self) -> &Path {
        self.models.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The names of the folders, which stand for the model on a page.
    fn name(&self) -> String {
        let names = self
            .models
            .iter()
            .map(|folder| folder.display().to_string());
        names.collect::<Vec<_>>().join(" + ")
    }

    fn load(&self) -> Result<Translator> {
        Ok(self.load_beside(None)?.0)
    }

    /// The model, and another to compare it with, from the folder of a training.
    fn load_beside(&self, other: Option<&Path>) -> Result<(Translator, Option<Translator>)> {
        // A missing model is an error before a device is opened.
        let runs: Vec<RunDir> = self.models.iter().map(RunDir::new).collect();
        let other = other.map(RunDir::new);
        let configs = runs.iter().chain(&other).map(RunDir::load_config);
        let configs: Vec<RunConfig> = configs.collect::<Result<_>>()?;
        let device = self.machine.open()?;
        if is_in_host_memory(&device) {
            configs
                .iter()
                .try_for_each(RunConfig::check_memory_to_load)?;
        }
        let translators = runs.iter().map(|run| load_model(run, &device));
        let translator = Translator::ensemble(translators.collect::<Result<_>>()?)?;
        let other = other.map(|run| self.limited(load_model(&run, &device)?));
        Ok((self.limited(translator)?, other.transpose()?))
    }

    /// A translator whose outputs have at most the tokens that are asked for.
    fn limited(&self, translator: Translator) -> Result<Translator> {
        match self.max_length {
            Some(max_length) => translator.with_max_len(max_length),
            None => Ok(translator),
        }
    }
}

/// Loads one model, and says if its training has not ended.
fn load_model(run: &RunDir, device: &Device) -> Result<Translator> {
    let translator = Translator::load(run, device)?;
    if !translator.is_chosen() {
        note(format_args!(
            "note: the training in {} has not ended; this is its newest checkpoint, of epoch {}",
            run.path().display(),
            translator.epoch(),
        ));
    }
    Ok(translator)
}

/// Runs `work` on one of the threads that compute. From outside, each operation that they share would first wake one of
/// them, and wait for it.
fn among_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // A thread that is alone must stay free for what other threads ask of it.
    if rayon::current_num_threads() > 1 {
        rayon::scope(|_| work())
    } else {
        work()
    }
}

/// The name of a device, a GPU's with its adapter.
fn describe(name: &str, device: &Device) -> String {
    #[cfg(any(
        feature = "wgpu",
        feature = "vulkan",
        feature = "metal",
        feature = "webgpu",
        feature = "cuda",
        feature = "rocm"
    ))]
    if let Some(identity) = device.identity() {
        return format!("{name} ({})", identity.name);
    }
    let _ = device;
    name.to_string()
}

/// The name of the standard output in errors.
const STANDARD_OUTPUT: &str = "the standard output";

/// Prints a line.
///
/// # Errors
/// [`Error::Io`] if that fails; [`is_closed_output`] tells whether nobody reads any more.
fn say(line: impl Display) -> Result<()> {
    writeln!(io::stdout(), "{line}").map_err(|source| Error::Io {
        action: "write",
        path: STANDARD_OUTPUT.into(),
        source,
    })
}

/// Prints a line, if somebody reads it: for what goes on without a reader, as training does in `seq2seq train | head`.
fn say_to_anyone(line: impl Display) -> Result<()> {
    say(line).or_else(|error| match is_closed_output(&error) {
        true => Ok(()),
        false => Err(error),
    })
}

/// Whether the standard output was closed by its reader. A program ends then, and nothing is wrong.
pub(crate) fn is_closed_output(error: &Error) -> bool {
    match error {
        Error::Io { path, source, .. } => {
            path == Path::new(STANDARD_OUTPUT) && source.kind() == ErrorKind::BrokenPipe
        }
        _ => false,
    }
}

/// Prints a line on the standard error. `eprintln!` would panic if it is closed.
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A text without the byte order mark that some programs put at the beginning of a file.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Says on the standard error that an output was cut off, and what to do about it.
fn note_cut_off(output: impl Display, translator: &Translator) {
    note(format_args!(
        "note: {output} reached the limit of {}; --max-length N raises it",
        tokens(translator.max_len()),
    ));
}

/// A number of tokens.
fn tokens(count: usize) -> String {
    match count {
        1 => "1 token".to_string(),
        _ => format!("{count} tokens"),
    }
}

/// The exit code after an error.
pub(crate) const FAILED: u8 = 2;

/// Prints an error on the standard error.
pub(crate) fn report(error: &Error) {
    note(format_args!("error: {}", one_line(error)));
}

/// An error as one line of a length that can be read, whatever names and tokens are in it.
pub(crate) fn one_line(error: &Error) -> String {
    const MOST: usize = 600;
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().collect(),
        false => c.to_string(),
    };
    let line: Vec<char> = error.to_string().chars().collect();
    let shown = |chars: &[char]| chars.iter().copied().map(escape).collect::<String>();
    if line.len() <= MOST {
        return shown(&line);
    }
    // What is wrong stands at either end.
    let (head, tail) = (&line[..MOST / 2], &line[line.len() - MOST / 2..]);
    format!("{} .. {}", shown(head), shown(tail))
}

/// Reads the command line and runs its command.
pub(crate) fn run() -> Result<ExitCode> {
    log::start();
    match Cli::parse().command {
        Command::Train(args) => return args.run(),
        Command::Translate(args) => return args.run(),
        Command::Score(args) => return args.run(),
        Command::Average(args) => args.run()?,
        Command::Eval(args) => args.run()?,
        Command::Attend(args) => args.run()?,
        #[cfg(feature = "serve")]
        Command::Serve(args) => args.run()?,
        Command::Info(args) => args.run()?,
        Command::Export(args) => args.run()?,
        Command::Devices(args) => args.run()?,
        Command::Completions(args) => args.run(Cli::command())?,
        Command::Man(args) => args.run(Cli::command())?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_path(path: &str) -> String {
        one_line(&Error::Io {
            action: "read",
            path: path.into(),
            source: ErrorKind::NotFound.into(),
        })
    }

    #[test]
    fn an_error_is_one_line_of_bounded_length() {
        assert_eq!(
            of_path("a\nb\u{1b}[31m"),
            "cannot read a\\nb\\u{1b}[31m: entity not found"
        );
        let long = of_path(&"x".repeat(100_000));
        assert_eq!(long.chars().count(), 604);
        assert!(long.starts_with("cannot read xxx"), "{long}");
        assert!(
            long.contains("xxx .. xxx") && long.ends_with("x: entity not found"),
            "{long}"
        );
    }
}
