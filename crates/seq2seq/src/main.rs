//! `seq2seq`: trains sequence-to-sequence models with attention, and translates with them.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod attend;
mod completions;
mod devices;
mod eval;
mod export;
mod info;
#[cfg(feature = "serve")]
mod listening;
mod log;
mod machine;
mod model;
mod output;
mod page;
mod pairs;
mod score;
#[cfg(feature = "serve")]
mod serve;
#[cfg(not(feature = "serve"))]
#[path = "without_server.rs"]
mod serve;
mod train;
mod translate;
mod unknown;
mod values;

use std::process::ExitCode;

use attention_seq2seq::Result;
use clap::{CommandFactory, Parser, Subcommand};

// It keeps what is freed for the next tensor: glibc gives large tensors back to the system, and has their pages faulted
// in again in every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Count the errors of a model.
    Eval(eval::EvalArgs),
    /// Show what the outputs of texts attend to: in the terminal, as a picture, or on a page for a browser.
    Attend(attend::AttendArgs),
    /// Serve a page that explains what is typed, and answer requests for translations, over HTTP (feature `serve`).
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

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) if output::is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error);
            ExitCode::from(output::FAILED)
        }
    }
}

/// Reads the command line and runs its command.
fn run() -> Result<ExitCode> {
    log::start();
    match Cli::parse().command {
        Command::Train(args) => return args.run(),
        Command::Translate(args) => return args.run(),
        Command::Score(args) => return args.run(),
        Command::Eval(args) => args.run()?,
        Command::Attend(args) => args.run()?,
        Command::Serve(args) => args.run()?,
        Command::Info(args) => args.run()?,
        Command::Export(args) => args.run()?,
        Command::Devices(args) => args.run()?,
        Command::Completions(args) => args.run(Cli::command())?,
        Command::Man(args) => args.run(Cli::command())?,
    }
    Ok(ExitCode::SUCCESS)
}
