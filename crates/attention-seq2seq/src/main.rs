//! `seq2seq`: trains sequence-to-sequence models with attention, and translates with them.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = cli::run() {
        cli::note(format_args!("error: {error}"));
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
