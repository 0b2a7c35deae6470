//! A command that computes on the device of a worker: what ends it when the worker is lost.
//!
//! Burn 0.22.1 tells of a lost connection where a tensor is read: there an error, elsewhere a panic; and a worker that
//! stalls is waited for without an end. So a thread asks the worker whether it is there, a panic of a command is looked
//! at here, and either way the program ends with one line, as it does after any error. Checkpoints are written whole or
//! not at all, so it may end at any time.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{ExitCode, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use attention_seq2seq::{Result, WorkerAddress, WorkerWatch};
use clap::Args;

use super::output::{FAILED, note, report};
use super::seconds::seconds;

static WATCH: OnceLock<WorkerWatch> = OnceLock::new();

/// The last panic, and where it was.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Whether the end of the worker has been told.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// When a worker is taken for lost.
#[derive(Args)]
pub(crate) struct WatchArgs {
    /// The seconds after which a worker that does not answer is taken for lost.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    worker_timeout: Duration,
}

impl WatchArgs {
    /// Watches the worker of a device from now on; nothing if the device is of this machine.
    pub(crate) fn start(&self, device: &str) -> Result<()> {
        if !WorkerAddress::is_meant_by(device) || WATCH.get().is_some() {
            return Ok(());
        }
        let address: WorkerAddress = device.parse()?;
        let watch = WorkerWatch::start(address, self.worker_timeout, |loss| {
            if !IS_TOLD.swap(true, Ordering::SeqCst) {
                report(&loss);
                exit(FAILED.into());
            }
        })?;
        let _ = WATCH.set(watch);
        panic::set_hook(Box::new(|panic| {
            let mut last = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(panic.to_string());
        }));
        Ok(())
    }
}

/// Runs a command. If it fails since its worker is lost, that is the error.
pub(crate) fn run(command: impl FnOnce() -> Result<ExitCode>) -> Result<ExitCode> {
    let ended = catch_unwind(AssertUnwindSafe(command));
    let Some(watch) = WATCH.get() else {
        return ended.unwrap_or_else(|panic| resume_unwind(panic));
    };
    match ended {
        Ok(Ok(code)) => Ok(code),
        Ok(Err(error)) => match watch.loss(&error.to_string()) {
            Some(loss) => {
                tell();
                Err(loss)
            }
            None => Err(error),
        },
        Err(payload) => match watch.loss(said(&*payload)) {
            Some(loss) => {
                tell();
                Err(loss)
            }
            None => {
                note_panic(&*payload);
                resume_unwind(payload)
            }
        },
    }
}

/// Ends the program if a panic that a command has caught came of the loss of its worker; notes the panic otherwise.
#[cfg(feature = "serve")]
pub(super) fn look_at_panic(payload: &(dyn Any + Send)) {
    let Some(watch) = WATCH.get() else { return };
    match watch.loss(said(payload)) {
        Some(loss) => {
            tell();
            report(&loss);
            exit(FAILED.into());
        }
        None => note_panic(payload),
    }
}

/// Has this thread be the one that tells of the end of the worker. Where another is about to, it ends the program.
fn tell() {
    while IS_TOLD.swap(true, Ordering::SeqCst) {
        thread::park();
    }
}

/// The text of a panic.
fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or_default()
}

/// Prints a panic, which the hook has not; with its place, unless another thread has panicked since.
fn note_panic(payload: &(dyn Any + Send)) {
    let said = said(payload);
    let last = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    match last {
        Some(last) if last.contains(said) => note(last),
        _ => note(said),
    }
}
