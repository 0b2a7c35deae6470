//! Timing that holds up on a noisy machine: every candidate takes its turn in every round, and the median of its
//! rounds counts.

use std::time::{Duration, Instant};

use burn::tensor::Device;

use crate::devices::on_host;
use crate::memory::{peak_extra, reserved_extra};

/// A turn lasts at least about this long: a short call is repeated, and its mean counts.
const SHORTEST_TURN: Duration = Duration::from_millis(50);
/// A candidate that has run for this long sits out the rounds after [`FEWEST_ROUNDS`].
const BUDGET: Duration = Duration::from_secs(15);
const FEWEST_ROUNDS: usize = 3;
/// Lets the threads of the turn before go to sleep: PyTorch's threads spin for 200 ms, waiting for more.
const PAUSE: Duration = Duration::from_millis(300);

/// Something to time.
pub trait Candidate {
    /// The name in the table.
    fn name(&self) -> &str;
    /// The mean time of `repeats` calls, each finished.
    fn time(&mut self, repeats: u32) -> Duration;
    /// The memory that a call takes at its peak, in bytes, results included; `None` where it cannot be told.
    fn memory(&mut self) -> Option<u64>;
    /// Hands back memory that it keeps from call to call, which others need. Whether it does: its next turn then begins
    /// with a call that does not count.
    fn rest(&mut self) -> bool {
        false
    }
}

/// A candidate in this process.
pub struct Local<'a> {
    name: String,
    call: Box<dyn FnMut() -> Duration + 'a>,
    memory: Memory,
}

/// Where a candidate takes memory.
enum Memory {
    Host,
    /// On this GPU.
    Gpu(Device),
    Untold,
}

impl<'a> Local<'a> {
    /// Times all of `call`, which returns only when its work is done.
    pub fn new(name: impl Into<String>, mut call: impl FnMut() + 'a) -> Self {
        Self {
            name: name.into(),
            call: Box::new(move || timed(&mut call).0),
            memory: Memory::Host,
        }
    }

    /// Counts the time that `call` returns, for a part of some work; the memory of a part is not told.
    pub fn part(name: impl Into<String>, call: impl FnMut() -> Duration + 'a) -> Self {
        Self {
            name: name.into(),
            call: Box::new(call),
            memory: Memory::Untold,
        }
    }

    /// The work is done on `device`, by default in the memory of this process.
    pub fn on(mut self, device: &Device) -> Self {
        if matches!(self.memory, Memory::Host) && !on_host(device) {
            self.memory = Memory::Gpu(device.clone());
        }
        self
    }
}

impl Candidate for Local<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn time(&mut self, repeats: u32) -> Duration {
        let total: Duration = (0..repeats).map(|_| (self.call)()).sum();
        total / repeats
    }

    fn memory(&mut self) -> Option<u64> {
        let call = || {
            (self.call)();
        };
        match &self.memory {
            Memory::Host => Some(peak_extra(call)),
            Memory::Gpu(device) => reserved_extra(device, call),
            Memory::Untold => None,
        }
    }

    fn rest(&mut self) -> bool {
        if let Memory::Gpu(device) = &self.memory {
            device.memory_cleanup();
        }
        matches!(self.memory, Memory::Gpu(_))
    }
}

/// How long `work` takes, and what it returns.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = work();
    (started.elapsed(), result)
}

/// The measurements of one candidate.
pub struct Measured {
    /// The name of the candidate.
    pub name: String,
    /// The time of a call in each round.
    pub rounds: Vec<Duration>,
    /// The memory of a call, see [`Candidate::memory`].
    pub memory: Option<u64>,
}

impl Measured {
    /// The median of the rounds.
    pub fn median(&self) -> Duration {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable();
        rounds[rounds.len() / 2]
    }
}

/// Times the candidates in turn, `rounds` times after a few calls each to warm up; then measures the memory of each.
///
/// # Panics
/// If `rounds` is 0.
pub fn compare(candidates: &mut [Box<dyn Candidate + '_>], rounds: u32) -> Vec<Measured> {
    assert!(rounds > 0, "compare: rounds expected at least 1, got 0");
    let mut turns: Vec<Turns> = candidates
        .iter_mut()
        .map(|candidate| Turns::warm(candidate.as_mut()))
        .collect();
    for _ in 0..rounds {
        for (candidate, turns) in candidates.iter_mut().zip(&mut turns) {
            turns.take(candidate.as_mut());
        }
    }
    let measured = candidates.iter_mut().zip(turns);
    measured
        .map(|(candidate, turns)| Measured {
            name: candidate.name().to_string(),
            rounds: turns.times,
            memory: candidate.memory(),
        })
        .collect()
}

/// The turns of one candidate.
struct Turns {
    repeats: u32,
    /// By our own clock: with what the candidate does not count.
    spent: Duration,
    /// Whether the next call takes memory anew.
    is_rested: bool,
    times: Vec<Duration>,
}

impl Turns {
    fn warm(candidate: &mut dyn Candidate) -> Self {
        let (first, _) = timed(|| candidate.time(1));
        let call = if first < SHORTEST_TURN {
            timed(|| candidate.time(3)).0 / 3 // The first one is no measure of the others.
        } else {
            first
        };
        let repeats = SHORTEST_TURN.as_secs_f64() / call.as_secs_f64().max(1e-6);
        Self {
            repeats: (repeats as u32).clamp(1, 1_000),
            spent: Duration::ZERO,
            is_rested: candidate.rest(),
            times: Vec::new(),
        }
    }

    fn take(&mut self, candidate: &mut dyn Candidate) {
        if self.times.len() >= FEWEST_ROUNDS && self.spent >= BUDGET {
            return;
        }
        std::thread::sleep(PAUSE);
        if self.repeats > 1 {
            // A core that slept starts slowly.
            candidate.time(self.repeats / 2);
        } else if self.is_rested {
            candidate.time(1);
        }
        let (spent, time) = timed(|| candidate.time(self.repeats));
        self.is_rested = candidate.rest();
        self.spent += spent;
        self.times.push(time);
    }
}
