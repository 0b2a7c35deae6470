//! Work divided among the threads of rayon's pool.
//!
//! A training step divides work hundreds of times, for some ten to a thousand microseconds each. Between two operations
//! rayon parks its idle workers, and the caller too while it waits; waking one costs microseconds, and many times that
//! in a virtual machine. Here workers, and the caller, look for work for a millisecond before they sleep.
//!
//! Time without it, relative to the time with it, for a training step of 128 examples, of dates, of 30,000 words and a
//! decoding step: 1.01, 1.24, 1.06, 1.11 (`cargo bench -p attention-benches --bench bets`).

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::Yield;

use crate::tuning;

/// How long a thread looks for work before it sleeps.
const AWAKE: Duration = Duration::from_millis(1);

/// The number of elements in a task that passes over them once or twice, such as the masked softmax: some tens of
/// microseconds, far more than the cost of a task.
pub const TASK_ELEMENTS: usize = 1 << 15;

/// The number of threads.
pub fn count() -> usize {
    rayon::current_num_threads()
}

/// Runs all tasks on all threads. Which thread runs which task is not determined.
///
/// # Panics
/// If a task panics.
pub fn for_each<T: Send>(tasks: impl ExactSizeIterator<Item = T> + Send, run: impl Fn(T) + Sync) {
    for_each_with(tasks, 1, || (), |(), task| run(task));
}

/// As [`for_each`], where each thread takes `least` tasks at a time, and has a state of its own.
pub fn for_each_with<T: Send, S>(
    tasks: impl ExactSizeIterator<Item = T> + Send,
    least: usize,
    make: impl Fn() -> S + Sync,
    run: impl Fn(&mut S, T) + Sync,
) {
    let least = least.max(1);
    let threads = (tasks.len() / least).min(rayon::current_num_threads());
    if threads < 2 {
        let mut own = make();
        return tasks.for_each(|task| run(&mut own, task));
    }
    let tasks = Mutex::new(tasks);
    let work = || {
        let mut own = None;
        loop {
            let mut queue = tasks.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(first) = queue.next() else {
                return;
            };
            let others: Vec<T> = queue.by_ref().take(least - 1).collect();
            drop(queue);
            let own = own.get_or_insert_with(&make);
            run(own, first);
            others.into_iter().for_each(|task| run(own, task));
        }
    };
    let others = AtomicUsize::new(threads - 1);
    let spins = tuning::spins();
    let _busy = Busy::new();
    if spins {
        stay_awake(threads - 1);
    }
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| {
                let _ended = Ended(&others);
                work();
            });
        }
        work();
        let waiting = Instant::now();
        while spins && others.load(Ordering::Relaxed) > 0 && waiting.elapsed() < AWAKE {
            find_work();
        }
    });
}

/// Dropped when another thread has no more to do, or a task panicked.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of threads that stay awake, or are about to. Most programs have one pool; with several, threads of one
/// pool may sleep while another pool's are awake.
static AWAKE_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread divides work among others, and waits for its end.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is one of [`AWAKE_THREADS`].
    static IS_AWAKE: Cell<bool> = const { Cell::new(false) };
}

/// While it exists, this thread divides work among others; it holds whether the thread did so before.
struct Busy(bool);

impl Busy {
    fn new() -> Self {
        if IS_AWAKE.replace(false) {
            // It found work that it divides itself, and is not awake for others meanwhile.
            AWAKE_THREADS.fetch_sub(1, Ordering::Relaxed);
        }
        Self(IS_BUSY.replace(true))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IS_BUSY.set(self.0);
    }
}

/// Makes `threads` threads of the pool stay awake.
fn stay_awake(threads: usize) {
    if cfg!(miri) {
        return;
    }
    while AWAKE_THREADS.load(Ordering::Relaxed) < threads {
        AWAKE_THREADS.fetch_add(1, Ordering::Relaxed);
        rayon::spawn(look_for_work);
    }
}

/// Looks for work as one of [`AWAKE_THREADS`], until there has been none for [`AWAKE`].
///
/// Must not be called on a thread that waits for the end of divided work. One that waits for other work of the pool may
/// call it, and checks that work again after [`AWAKE`].
fn look_for_work() {
    let was_awake = IS_AWAKE.replace(true);
    if !was_awake && !IS_BUSY.get() {
        let started = Instant::now();
        let mut worked = false;
        while started.elapsed() < AWAKE {
            worked |= find_work();
            if !IS_AWAKE.replace(true) {
                AWAKE_THREADS.fetch_add(1, Ordering::Relaxed);
            }
        }
        if worked {
            // The caller checks whether there is something else to do, and then continues.
            IS_AWAKE.set(false);
            return rayon::spawn(look_for_work);
        }
    }
    IS_AWAKE.set(was_awake);
    AWAKE_THREADS.fetch_sub(1, Ordering::Relaxed);
}

/// Runs a task of the pool that this thread may run and returns `true`, if there is one. Otherwise it idles for about
/// half a microsecond, in which a thread of another process may use the core.
fn find_work() -> bool {
    let worked = rayon::yield_now() == Some(Yield::Executed);
    if !worked {
        for _ in 0..8 {
            spin_loop();
        }
        thread::yield_now();
    }
    worked
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn on(threads: usize, work: impl FnOnce() + Send) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(work);
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 5] {
            on(threads, || {
                for (count, least) in [(0, 1), (1, 1), (2, 1), (7, 3), (1000, 0)] {
                    let runs: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                    for_each_with(
                        runs.iter(),
                        least,
                        || (),
                        |(), run| {
                            run.fetch_add(1, Ordering::Relaxed);
                        },
                    );
                    assert!(runs.iter().all(|run| run.load(Ordering::Relaxed) == 1));
                }
            });
        }
    }

    #[test]
    fn tasks_share_out_tasks_of_their_own() {
        let sum = AtomicUsize::new(0);
        let work = || {
            for_each(0..20_usize, |outer| {
                for_each(0..20, |inner| {
                    sum.fetch_add(outer * inner, Ordering::Relaxed);
                });
            });
        };
        work(); // From outside of the pool.
        on(3, work);
        assert_eq!(sum.into_inner(), 2 * 190 * 190);
    }

    #[test]
    fn few_tasks_stay_on_their_thread() {
        on(2, || {
            let this = thread::current().id();
            let all_here = AtomicBool::new(true);
            let run = |(): &mut (), _| {
                all_here.fetch_and(thread::current().id() == this, Ordering::Relaxed);
            };
            for_each_with(0..9, 5, || (), run);
            assert!(all_here.into_inner());
        });
    }

    #[test]
    fn threads_sleep_in_the_end() {
        let work = || for_each(0..20, |_| for_each(0..20, |_| pass_time()));
        let _ = catch_unwind(|| for_each(0..20, |task| assert_ne!(task, 10)));
        work();
        on(4, work);
        let started = Instant::now();
        while AWAKE_THREADS.load(Ordering::Relaxed) > 0 {
            // Other tests have theirs until they end, which may take minutes on a busy machine.
            assert!(started.elapsed() < Duration::from_secs(1800), "awake");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn pass_time() {
        (0..1000).for_each(|_| spin_loop());
    }

    #[test]
    fn the_panic_of_a_task_is_the_callers() {
        for threads in [1, 3] {
            on(threads, || {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    for_each(0..50, |task| assert_ne!(task, 20, "task 20"));
                }));
                let panic = result.expect_err("a task panics");
                let text = panic.downcast::<String>().expect("a message");
                assert!(text.contains("task 20"));
                // The threads go on.
                let runs = AtomicUsize::new(0);
                for_each(0..50, |_| {
                    runs.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(runs.into_inner(), 50);
            });
        }
    }
}
