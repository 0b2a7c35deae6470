//! `seq2seq`: trains sequence-to-sequence models with attention, and translates with them.
//!
//! This is the program as a function, and its command line, from which `examples/shell_files.rs` makes completions and
//! manual pages. The library for other programs is [`attention_seq2seq`].

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod attend;
mod devices;
mod eval;
mod export;
mod info;
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

use attention_core::backend::OPERATIONS;
use attention_seq2seq::{Error, Result};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

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
}

/// The command line of the program.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) if output::is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error);
            ExitCode::from(output::FAILED)
        }
    }
}

/// Parses the command line. A requested text, such as that of `--help`, is printed by only one process, and plainly if
/// a launcher collects it.
fn parse() -> Cli {
    let color = output::LAUNCHED.map_or(ColorChoice::Auto, |_| ColorChoice::Never);
    let matches = command().color(color).try_get_matches();
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.unwrap_or_else(|error| match error.use_stderr() || !output::is_further() {
        true => error.exit(),
        false => std::process::exit(0),
    })
}

/// Parses the command line and runs its command.
fn run() -> Result<ExitCode> {
    log::start();
    let command = parse().command;
    if !matches!(command, Command::Train(_))
        && let Some(size) = output::LAUNCHED.map(|launched| launched.size)
        && size > 1
    {
        if output::is_further() {
            return Ok(ExitCode::SUCCESS);
        }
        output::note(format_args!(
            "note: the first of {size} processes does this alone: only `train` takes several"
        ));
    }
    (OPERATIONS.check_environment())
        .map_err(|[variable, expected, found]| Error::config(variable, expected, found))?;
    match command {
        Command::Train(args) => return args.run(),
        Command::Translate(args) => return args.run(),
        Command::Score(args) => return args.run(),
        Command::Eval(args) => args.run()?,
        Command::Attend(args) => args.run()?,
        Command::Serve(args) => args.run()?,
        Command::Info(args) => args.run()?,
        Command::Export(args) => args.run()?,
        Command::Devices(args) => args.run()?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use clap_complete::Shell;
    use clap_mangen::Man;

    use super::*;

    #[test]
    fn every_shell_completes_commands_and_every_command_has_a_page() {
        command().debug_assert();
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command(), "seq2seq", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["seq2seq", "translate", "learning-rate", "overwrite"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
        for command in command().get_subcommands() {
            let mut page = Vec::new();
            Man::new(command.clone()).render(&mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            assert!(page.contains(command.get_name()), "{page}");
        }
    }
}
