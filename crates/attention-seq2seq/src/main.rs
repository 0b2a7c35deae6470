//! `seq2seq`: trains sequence-to-sequence models with attention, and translates with them.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod cli;

use std::process::ExitCode;

// It keeps what is freed for the next tensor: glibc gives large tensors back to the system, and has their pages faulted
// in again in every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
