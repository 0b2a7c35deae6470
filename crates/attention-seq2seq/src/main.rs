//! `seq2seq`: trains sequence-to-sequence models with attention, and translates with them.

mod cli;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Keeps what is freed for the next tensor. The default of glibc gives large tensors back to the system, and has their
/// pages faulted in again in every step.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
