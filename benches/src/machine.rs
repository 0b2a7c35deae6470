//! The machine, and how much of it is used.

use std::thread::available_parallelism;

/// Holds this process and its children to `ATTENTION_THREADS` cores, by default all, and starts a thread for each. To
/// be called first: threads that run already are not held.
///
/// # Panics
/// If the variable is no number from 1 to the number of cores, or [`keeps_memory`] panics.
pub fn limit_threads() -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = match std::env::var("ATTENTION_THREADS") {
        Ok(text) => text.parse().ok().filter(|n| (1..=cores).contains(n)),
        Err(_) => Some(cores),
    };
    let threads =
        threads.unwrap_or_else(|| panic!("ATTENTION_THREADS: expected a number from 1 to {cores}"));
    #[cfg(target_os = "linux")]
    hold_to_cores(threads).expect("a process may give up cores");
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if keeps_memory() {
        keep_memory();
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .expect("no rayon threads run yet");
    threads
}

/// Runs `work` as a step of training is run: on one of `threads` threads that compute.
pub fn among_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    match threads {
        1 => work(),
        _ => rayon::scope(|_| work()),
    }
}

/// Whether glibc is told to keep freed memory instead of handing it back to the system and asking for it again: where
/// the variable `ATTENTION_KEEP_MEMORY` is 1. By default the allocator is as in a program that sets nothing.
///
/// # Panics
/// If the variable is neither 0 nor 1, or 1 where the allocator is not glibc's.
pub fn keeps_memory() -> bool {
    let is_glibc = cfg!(all(target_os = "linux", target_env = "gnu"));
    match std::env::var("ATTENTION_KEEP_MEMORY").as_deref() {
        Ok("1") if is_glibc => true,
        Ok("1") => panic!("ATTENTION_KEEP_MEMORY: expected on Linux with glibc only"),
        Ok("0") | Err(_) => false,
        Ok(other) => panic!("ATTENTION_KEEP_MEMORY: expected 0 or 1, got {other:?}"),
    }
}

/// The settings of glibc for a baseline's process: as for this one.
pub(crate) fn allocator_settings() -> &'static [(&'static str, &'static str)] {
    if keeps_memory() {
        &[
            ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
            ("MALLOC_TRIM_THRESHOLD_", "4294967295"),
        ]
    } else {
        &[]
    }
}

/// As [`allocator_settings`], for this process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_memory() {
    // SAFETY: `mallopt` takes any numbers.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}

/// To the first `threads` of the cores that this process may use.
#[cfg(target_os = "linux")]
fn hold_to_cores(threads: usize) -> std::io::Result<()> {
    use libc::{CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t, sched_getaffinity, sched_setaffinity};

    let check = |result| match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: a set of cores is an array of bits, for which zeros are valid; the calls get its size and stay within,
    // and `core` is below the number of bits.
    unsafe {
        let mut allowed: cpu_set_t = std::mem::zeroed();
        let mut chosen: cpu_set_t = std::mem::zeroed();
        check(sched_getaffinity(0, size_of::<cpu_set_t>(), &mut allowed))?;
        let cores = (0..CPU_SETSIZE as usize).filter(|&core| CPU_ISSET(core, &allowed));
        cores
            .take(threads)
            .for_each(|core| CPU_SET(core, &mut chosen));
        check(sched_setaffinity(0, size_of::<cpu_set_t>(), &chosen))
    }
}

/// The model of the processor.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_string())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}
