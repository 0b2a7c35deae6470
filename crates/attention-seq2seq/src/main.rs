//! `seq2seq`: trains sequence-to-sequence models with attention, and translates with them.

mod allocator;
mod cli;

use std::process::ExitCode;

use allocator::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(error) if cli::is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli::report(&error);
            ExitCode::from(cli::FAILED)
        }
    }
}
