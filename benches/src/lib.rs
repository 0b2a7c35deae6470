//! Timing that holds up on a noisy machine: every contestant takes its turn in every round, and the median of its
//! rounds counts. Figures are comparable within one run only.

use std::time::{Duration, Instant};

/// Something to time, with a name.
pub struct Contestant<'a> {
    /// What it is called in the table.
    pub name: String,
    /// Does the work once, and returns only when it is done.
    pub run: Box<dyn FnMut() + 'a>,
}

impl<'a> Contestant<'a> {
    /// A contestant called `name`.
    pub fn new(name: impl Into<String>, run: impl FnMut() + 'a) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// Runs all contestants in turn, `rounds` times after one round to warm up, and returns the median time of each.
///
/// # Panics
/// If `rounds` is 0.
pub fn medians(contestants: &mut [Contestant], rounds: usize) -> Vec<Duration> {
    assert!(rounds > 0, "medians: rounds expected at least 1, got 0");
    for contestant in contestants.iter_mut() {
        (contestant.run)();
    }
    let mut times = vec![Vec::with_capacity(rounds); contestants.len()];
    for _ in 0..rounds {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            let started = Instant::now();
            (contestant.run)();
            times.push(started.elapsed());
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
        .collect()
}
