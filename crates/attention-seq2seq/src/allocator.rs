//! The allocator of the program: mimalloc, and an error of one line where memory ends.

use std::alloc::{GlobalAlloc, Layout};
use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;

use crate::cli::FAILED;

/// mimalloc, which keeps what is freed for the next tensor: the default of glibc gives large tensors back to the
/// system, and has their pages faulted in again in every step.
///
/// An allocation that fails, on whichever thread, ends the program with an error of one line and its exit code. By
/// default it would abort, with a backtrace. Files are as if it had been killed: a run is that of its last whole epoch.
pub(crate) struct Allocator(MiMalloc);

impl Allocator {
    pub(crate) const fn new() -> Self {
        Self(MiMalloc)
    }
}

// SAFETY: every block is one of mimalloc's, as it is. Nothing unwinds: mimalloc does not, and where a block is missing
// the process ends.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that is asked for; so below.
        given(unsafe { self.0.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { self.0.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { self.0.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }
}

/// A block that was given; ends the program if it was not.
fn given(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() {
        end(bytes);
    }
    block
}

/// Ends the program. On Unix it allocates nothing, and runs nothing that other threads or libraries registered for its
/// end.
#[cold]
fn end(bytes: usize) -> ! {
    /// Threads that fail together print one line.
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    while HAS_ENDED.swap(true, Ordering::Relaxed) {
        again();
    }
    let mut line = Cursor::new([0; 256]);
    let _ = writeln!(
        line,
        "error: memory: expected {bytes} bytes more, found that this process may have no more (see ulimit -v); \
         smaller batches (--batch-size), shorter texts or a smaller model need less"
    );
    let length = line.position() as usize;
    leave(&line.get_ref()[..length])
}

/// Waits for the end that another thread brings.
#[cfg(unix)]
fn again() {
    std::hint::spin_loop();
}

/// As on Unix; but the thread that brings the end may itself fail to allocate once more, and must not wait for itself.
#[cfg(not(unix))]
fn again() {
    if IS_LEAVING.get() {
        std::process::abort();
    }
    std::hint::spin_loop();
}

#[cfg(not(unix))]
thread_local! {
    /// Whether this thread ends the program.
    static IS_LEAVING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Writes to the standard error, whose lock another thread may hold, and ends the process.
#[cfg(unix)]
fn leave(line: &[u8]) -> ! {
    // SAFETY: the bytes are there to be read; both functions may be called at any time, from any thread.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(FAILED.into())
    }
}

#[cfg(not(unix))]
fn leave(line: &[u8]) -> ! {
    IS_LEAVING.set(true);
    let _ = std::io::stderr().write_all(line);
    std::process::exit(FAILED.into())
}
