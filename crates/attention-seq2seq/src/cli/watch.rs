//! A command that computes on the device of a worker: what ends it when the worker is lost.
//!
//! Burn 0.22.1 tells of a lost connection where a tensor is read: there an error, elsewhere a panic; and a worker that
//! stalls is waited for without an end. So a thread asks the worker whether it is there, a panic of a command is looked
//! at here, and either way the program ends with one line, as it does after any error. Checkpoints are written whole or
//! not at all, so it may end at any time.

use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{ExitCode, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use attention_seq2seq::{Error, Result, WorkerAddress, WorkerWatch};

use super::output::{FAILED, note, report};

static WATCH: OnceLock<WorkerWatch> = OnceLock::new();

/// What the first panic said.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Whether the end of the worker has been told.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Watches the worker of a device from now on; nothing if the device is of this machine.
pub(super) fn start(device: &str, timeout: Duration) -> Result<()> {
    if !device.contains("://") || WATCH.get().is_some() {
        return Ok(());
    }
    let address: WorkerAddress = device.parse()?;
    let watch = WorkerWatch::start(address, timeout, |loss| {
        if !IS_TOLD.swap(true, Ordering::SeqCst) {
            report(&loss);
            exit(FAILED.into());
        }
    })?;
    let _ = WATCH.set(watch);
    panic::set_hook(Box::new(|panic| {
        let mut first = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| panic.to_string());
    }));
    Ok(())
}

/// Runs a command. If it fails since its worker is lost, that is the error.
pub(crate) fn run(command: impl FnOnce() -> Result<ExitCode>) -> Result<ExitCode> {
    let ended = catch_unwind(AssertUnwindSafe(command));
    let Some(watch) = WATCH.get() else {
        return ended.unwrap_or_else(|panic| resume_unwind(panic));
    };
    let told = |loss: Error| {
        // Where the watch is about to tell, it ends the program.
        while IS_TOLD.swap(true, Ordering::SeqCst) {
            thread::park();
        }
        Err(loss)
    };
    match ended {
        Ok(Ok(code)) => Ok(code),
        Ok(Err(error)) => match watch.loss(&error.to_string()) {
            Some(loss) => told(loss),
            None => Err(error),
        },
        Err(payload) => {
            let said = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
            let said = said.unwrap_or_default();
            match watch.loss(&said) {
                Some(loss) => told(loss),
                None => {
                    note(said);
                    resume_unwind(payload)
                }
            }
        }
    }
}
