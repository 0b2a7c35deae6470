//! Trials, one at a time, and their choices.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::tune::{LocalTuner, TunableSet};
use burn_cubecl::{CubeDevice, CubeTuneId};

thread_local! {
    static IS_WITHIN_TRIAL: Cell<bool> = const { Cell::new(false) };
}

static TRYING: Mutex<()> = Mutex::new(());

/// The choices of devices among candidates, by keys of calls.
pub(crate) struct Tuner {
    choices: LocalTuner<String, CubeTuneId>,
    failed: FailedTrials,
}

impl Tuner {
    /// No choices yet; `name` is the name of CubeCL's file for them.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            choices: LocalTuner::new(name),
            failed: FailedTrials::new(),
        }
    }

    /// The fastest candidate for the calls of a key on a device, measured by `trial` if unknown. `None` if nothing was
    /// measured, or the trial failed.
    ///
    /// If no candidate could be measured, CubeCL may name one that refused.
    pub(crate) fn fastest<T, C>(
        &self,
        (client, device): (&Client, &CubeDevice),
        key: &str,
        candidates: fn() -> TunableSet<String, T, (), C>,
        trial: impl FnOnce() -> T,
    ) -> Option<C>
    where
        T: Clone + Send + Sync + 'static,
        C: Clone + Send + Sync + 'static,
    {
        let id = CubeTuneId::new(client, device);
        let key = key.to_string();
        let set = self.choices.init(&id, candidates);
        let known = || {
            let fastest = self.choices.fastest_identity(&id, &set, &key).map(Some);
            fastest.or_else(|| self.failed.contains(&id, &key).then_some(None))
        };
        let fastest = known_or_tried(known, || {
            let trial = trial();
            let execute = || self.choices.execute(&id, client, set.clone(), trial);
            if let Err(why) = caught(execute) {
                log::warn!("attention: no trial of {key}; its kernel runs ({why})");
                self.failed.insert(&id, &key);
            }
        });
        fastest.flatten()
    }

    /// Whether the trial for the calls of a key on a device failed. For tests.
    pub fn has_failed(&self, (client, device): (&Client, &CubeDevice), key: &str) -> bool {
        self.failed.contains(&CubeTuneId::new(client, device), key)
    }
}

/// Calls whose trial failed as a whole: CubeCL (0.11.3) never repeats a trial that it began.
#[derive(Debug, Default)]
struct FailedTrials(Mutex<BTreeSet<[String; 2]>>);

impl FailedTrials {
    /// No calls.
    const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Adds the calls of a key on a device.
    fn insert(&self, device: &impl Display, key: &str) {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.insert([device.to_string(), key.to_string()]);
    }

    /// Whether the trial of a key failed on a device.
    fn contains(&self, device: &impl Display, key: &str) -> bool {
        let failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.contains(&[device.to_string(), key.to_string()])
    }
}

/// The choice that `known` returns, otherwise after `try_all` has made it known. Threads wait for each other here, so
/// that all calls use the choice of the first: CubeCL itself would give a second thread, during the first one's trial,
/// any candidate that runs.
///
/// A trial may cause another one, of an operation within the first, on its own thread or the device's. The inner trial
/// takes no lock, because the outer one holds it, and waits for the inner one.
///
/// A thread that waits here may hold locks of an autodiff graph: if threads share a graph on one device, let one of
/// them make the first step alone.
fn known_or_tried<T>(known: impl Fn() -> Option<T>, try_all: impl FnOnce()) -> Option<T> {
    known().or_else(|| {
        let is_outermost = !IS_WITHIN_TRIAL.get();
        let lock = || TRYING.lock().unwrap_or_else(PoisonError::into_inner);
        let _alone = is_outermost.then(lock);
        known().or_else(|| {
            within_trial(try_all);
            known()
        })
    })
}

/// Runs a part of a trial, and returns the message of a panic as an error. A candidate that panics is dropped; the
/// device's thread must survive the panic, and the measurement that it began must be ended.
#[doc(hidden)]
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| within_trial(run)));
    ran.map_err(|panic| {
        let text = panic.downcast::<String>().map(|text| *text);
        let text = text.or_else(|panic| panic.downcast::<&str>().map(|text| text.to_string()));
        text.unwrap_or_else(|_| "it panics".to_string())
    })
}

/// Runs a part of a trial.
fn within_trial<T>(run: impl FnOnce() -> T) -> T {
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            IS_WITHIN_TRIAL.set(self.0);
        }
    }

    let _before = Before(IS_WITHIN_TRIAL.replace(true));
    run()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_thread_tries_and_all_have_its_choice() {
        let (tried, known) = (AtomicUsize::new(0), Mutex::new(None));
        let choice = || {
            known_or_tried(
                || *known.lock().expect("no panic"),
                || {
                    tried.fetch_add(1, Ordering::Relaxed);
                    *known.lock().expect("no panic") = Some(7);
                },
            )
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(choice)).collect();
            for thread in threads {
                assert_eq!(thread.join().expect("no panic"), Some(7));
            }
        });
        assert_eq!(tried.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_trial_within_a_trial_does_not_wait_for_it() {
        let known = Cell::new(None);
        let inner = || known_or_tried(|| known.get(), || known.set(Some(3)));
        let outer = known_or_tried(|| None::<i32>, || assert_eq!(within_trial(inner), Some(3)));
        assert_eq!(outer, None);
        assert!(!IS_WITHIN_TRIAL.get());
    }

    #[test]
    fn a_trial_that_failed_is_known_on_its_device() {
        let failed = FailedTrials::new();
        failed.insert(&"one", "key");
        assert!(failed.contains(&"one", "key"));
        assert!(!failed.contains(&"one", "other"));
        assert!(!failed.contains(&"other", "key"));
    }

    #[test]
    fn a_panic_ends_its_trial_alone() {
        let caught_text: Result<(), String> = caught(|| panic!("a candidate that fails"));
        assert_eq!(caught_text, Err("a candidate that fails".to_string()));
        let caught_number: Result<(), String> = caught(|| panic!("candidate {}", 1 + 1));
        assert_eq!(caught_number, Err("candidate 2".to_string()));
        assert_eq!(caught(|| 3), Ok(3));
        assert!(!IS_WITHIN_TRIAL.get());
    }
}
