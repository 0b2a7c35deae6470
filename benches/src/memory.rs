//! How much memory work takes: of this process, whose allocator counts, or of a GPU.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::tensor::{Device, StreamId, Tensor};
use burn_fused_layers::release_memory;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The most bytes that were allocated at once during `work`, above those before it.
pub fn peak_extra(work: impl FnOnce()) -> u64 {
    // Memory kept from earlier work would not count.
    release_memory();
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed).saturating_sub(before) as u64
}

/// The bytes that `work` has a GPU's allocator reserve, above those reserved before; `None` where it does not tell.
///
/// The allocator cuts tensors out of pages. It keeps pages that are free again until it is told to clean up, so what is
/// reserved after `work` is what was reserved at its peak. A page is as large as the largest tensor that was ever asked
/// of its stream: a stream that does nothing else has pages of this work's size, once it has been done there. Small
/// tensors share a page of their own, which one that is held keeps out of the count.
pub fn reserved_extra(device: &Device, mut work: impl FnMut()) -> Option<u64> {
    StreamId::allocate().executes(|| {
        let _held = Tensor::<1>::zeros([1], device);
        work();
        device.memory_cleanup();
        let before = device.memory_pool_usage()?.bytes_reserved;
        work();
        let after = device.memory_pool_usage()?.bytes_reserved;
        device.memory_cleanup();
        Some(after.saturating_sub(before))
    })
}

/// The system's allocator, counting bytes.
struct Counting;

fn grow(size: usize) {
    let live = LIVE.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(live, Relaxed);
}

fn shrink(size: usize) {
    LIVE.fetch_sub(size, Relaxed);
}

// SAFETY: every method passes its arguments on to `System`, which keeps the contract, and returns what it returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Where the block must move, old and new are there at once; counted as if it always had to.
        grow(size);
        shrink(layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
