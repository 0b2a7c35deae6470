//! The device, and the threads that compute.

use std::io::{self, ErrorKind};
use std::sync::mpsc;
use std::thread;

use attention_seq2seq::device::compiled_in_devices;
use attention_seq2seq::{Error, Result, open_device};
use burn::tensor::Device;
use clap::Args;

/// The largest number of threads to start.
const MOST_THREADS: usize = 1024;

/// The device and its threads.
#[derive(Args)]
pub(crate) struct Machine {
    /// The device: flex, ndarray, wgpu, vulkan, metal, webgpu, cuda or rocm, as compiled in, or NAME:N for the N-th
    /// adapter that `seq2seq devices` lists [default: the first compiled in].
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// The number of threads on a CPU [default: all].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
}

impl Machine {
    /// The name of the device.
    pub(crate) fn name(&self) -> &str {
        let first = || compiled_in_devices().first().copied();
        self.device.as_deref().or_else(first).unwrap_or("none")
    }

    /// Sets the number of threads, which must precede any computation, and opens the device. If CUDA or ROCm has
    /// several GPUs, `gpu` is the number of the one to use, unless `--device` has one.
    pub(crate) fn open(&self, gpu: usize) -> Result<Device> {
        if let Some(threads) = self.threads
            && !(1..=MOST_THREADS).contains(&threads)
        {
            let expected = format!("1 to {MOST_THREADS}");
            return Err(Error::config("--threads", expected, threads));
        }
        start_threads(self.threads)?;
        match (self.name(), gpu) {
            (name @ ("cuda" | "rocm"), 1..) => open_device(&format!("{name}:{gpu}")),
            (name, _) => open_device(name),
        }
    }
}

/// Starts the threads that compute, by default one for each core. Otherwise the first computation would start them, and
/// panic if a limit of the process forbids it.
pub(crate) fn start_threads(threads: Option<usize>) -> Result<()> {
    let started = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .spawn_handler(start_thread)
        .build_global();
    let expected = "a number that the limits of this process allow to start";
    started.map_err(|reason| Error::config("--threads", expected, reason))
}

/// Starts a thread, and waits until it runs. A thread that has its stack, but lacks memory for what the standard
/// library does next in it, ends the process: so some memory must be free that no other thread is about to take.
fn start_thread(worker: rayon::ThreadBuilder) -> io::Result<()> {
    const STACK: usize = 2 << 20;
    let mut spare = Vec::<u8>::new();
    let reserved = spare.try_reserve_exact(2 * STACK);
    reserved.map_err(|_| ErrorKind::OutOfMemory)?;
    drop(spare);
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        // The receiver is waiting.
        let _ = sender.send(());
        worker.run();
    };
    thread::Builder::new().stack_size(STACK).spawn(run)?;
    receiver.recv().map_err(io::Error::other)
}

/// Runs `work` on one of the threads that compute. From another thread, each shared operation would first wake one of
/// them, and wait for it.
pub(crate) fn among_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // A single thread must stay free for requests of other threads.
    if rayon::current_num_threads() > 1 {
        rayon::scope(|_| work())
    } else {
        work()
    }
}

/// The name of a device, for a GPU with its adapter.
pub(crate) fn describe(name: &str, device: &Device) -> String {
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
