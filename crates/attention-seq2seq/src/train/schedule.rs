//! The learning rate of each step, and the end of training.

use std::f64::consts::PI;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::run::{TrainConfig, TrainingClock};

/// The reciprocal of the largest part of all steps in which the learning rate may rise.
const LONGEST_WARMUP: usize = 4;

/// The learning rate at the end of training, relative to the highest one.
const LAST_SHARE: f64 = 0.01;

/// The steps of a training: their learning rates, along a cosine that is scaled down in the first steps (Loshchilov and
/// Hutter 2017, "SGDR", section 3; Vaswani et al. 2017, section 5.3), and whether a step is the last.
///
/// The cosine ends with the last step of the last epoch or, if a limit of steps or of time comes first, with that
/// limit.
pub(super) struct Schedule {
    highest: f64,
    steps: usize,
    warmup: usize,
    /// The number of steps begun.
    begun: usize,
    /// The number of steps of a training that may end within an epoch.
    limit: Option<usize>,
    /// Whether steps are counted, because some epochs have fewer than others.
    is_counted: bool,
    clock: Option<Clock>,
}

impl Schedule {
    /// The steps of `config` after the first `begun`; if time or steps were limited, `before` is more exact.
    pub(super) fn new(
        config: &TrainConfig,
        steps_of_epoch: usize,
        begun: usize,
        before: Option<TrainingClock>,
    ) -> Self {
        let of_epochs = steps_of_epoch.saturating_mul(config.epochs);
        let left = of_epochs.saturating_sub(begun);
        let begun = before.map_or(begun, |before| before.steps);
        let clock = config.max_minutes.map(|minutes| Clock {
            limit: 60.0 * minutes,
            before: before.map_or(0.0, |before| before.seconds),
            started: Instant::now(),
            elapsed: Duration::ZERO,
            reserved: before.map_or(0.0, |before| before.validation_seconds),
        });
        let of_epochs = begun.saturating_add(left).max(1);
        let steps = config.steps.map_or(of_epochs, |steps| steps.min(of_epochs));
        Self {
            highest: config.learning_rate,
            steps,
            warmup: config.warmup.min(steps.div_ceil(LONGEST_WARMUP)),
            begun,
            limit: config.steps,
            is_counted: config.steps.is_some() || before.is_some() || clock.is_some(),
            clock,
        }
    }

    /// The learning rate of the next step.
    pub(super) fn step(&mut self) -> f64 {
        let lowest = LAST_SHARE * self.highest;
        let of_steps = self.begun as f64 / self.steps as f64;
        let of_time = self.clock.as_ref().map_or(0.0, Clock::progress);
        let cosine = (of_steps.max(of_time.min(1.0)) * PI).cos();
        self.begun += 1;
        let rise = (self.begun as f64 / self.warmup.max(1) as f64).min(1.0);
        rise * (lowest + 0.5 * (self.highest - lowest) * (1.0 + cosine))
    }

    /// The number of steps begun.
    pub(super) fn begun(&self) -> usize {
        self.begun
    }

    /// The number of remaining steps, if limited.
    pub(super) fn left(&self) -> usize {
        let left = |limit: usize| limit.saturating_sub(self.begun);
        self.limit.map_or(usize::MAX, left)
    }

    /// Whether there is no time for another step.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.clock.as_ref().is_some_and(|it| it.progress() >= 1.0)
    }

    /// Reads the clock, if time is limited. `first` maps a process's own numbers to those of the first process, so that
    /// all agree on learning rates and on the end.
    pub(super) fn read_clock(
        &mut self,
        first: impl FnOnce([u64; 2]) -> Result<[u64; 2]>,
    ) -> Result<()> {
        if let Some(clock) = &mut self.clock {
            let elapsed = clock.started.elapsed().as_nanos() as u64;
            let [elapsed, reserved] = first([elapsed, clock.reserved.to_bits()])?;
            clock.elapsed = Duration::from_nanos(elapsed);
            clock.reserved = f64::from_bits(reserved);
        }
        Ok(())
    }

    /// Reserves time for a validation as long as this one.
    pub(super) fn reserve(&mut self, validation: Duration) {
        if let Some(clock) = &mut self.clock {
            clock.reserved = validation.as_secs_f64();
        }
    }

    /// The time and the steps so far, if either is or was limited.
    pub(super) fn clock(&self) -> Option<TrainingClock> {
        let clock = self.clock.as_ref();
        self.is_counted.then(|| TrainingClock {
            seconds: clock.map_or(0.0, Clock::seconds),
            validation_seconds: clock.map_or(0.0, |clock| clock.reserved),
            steps: self.begun,
        })
    }
}

/// The time limit of a training, in seconds.
struct Clock {
    limit: f64,
    /// The seconds before it was resumed.
    before: f64,
    started: Instant,
    /// The time since then, as of the last reading of the clock.
    elapsed: Duration,
    /// The seconds reserved for the final validation.
    reserved: f64,
}

impl Clock {
    fn seconds(&self) -> f64 {
        self.before + self.elapsed.as_secs_f64()
    }

    /// The fraction of the time for steps that has passed.
    fn progress(&self) -> f64 {
        let left = self.limit - self.reserved;
        match left > 0.0 {
            true => self.seconds() / left,
            false => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;

    use super::*;

    /// The rates of two epochs of five steps.
    fn rates(warmup: usize) -> Vec<f64> {
        let config = TrainConfig {
            epochs: 2,
            learning_rate: 0.5,
            warmup,
            ..TrainConfig::default()
        };
        let mut schedule = Schedule::new(&config, 5, 0, None);
        (0..10).map(|_| schedule.step()).collect()
    }

    #[test]
    fn the_learning_rate_falls_along_the_cosine_of_burn() {
        let burns = CosineAnnealingLrSchedulerConfig::new(0.5, 10).with_min_lr(0.005);
        let mut burns = burns.init().unwrap();
        let expected: Vec<f64> = (0..10).map(|_| burns.step().base()).collect();
        assert_eq!(rates(0), expected);
        assert_eq!(expected[0], 0.5);
        assert!(expected.is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn the_learning_rate_rises_to_the_cosine() {
        let cosine = rates(0);
        // A step that is the first and the last of the rise is whole.
        assert_eq!(rates(1), cosine);
        for warmup in [2, 4, 10, 40] {
            for (step, (rate, whole)) in rates(warmup).into_iter().zip(&cosine).enumerate() {
                // A quarter of ten steps, and no more.
                let share = ((step + 1) as f64 / warmup.min(3) as f64).min(1.0);
                let difference = (rate - share * whole).abs();
                assert!(difference < 1e-12, "{warmup}, step {step}");
            }
        }
    }

    #[test]
    fn a_limit_of_steps_ends_the_cosine() {
        let config = |epochs, steps| TrainConfig {
            epochs,
            steps,
            ..TrainConfig::default()
        };
        // Seven of two epochs of five steps, as if an epoch had seven.
        let mut limited = Schedule::new(&config(2, Some(7)), 5, 0, None);
        let mut whole = Schedule::new(&config(1, None), 7, 0, None);
        for left in (0..7).rev() {
            assert_eq!(limited.step(), whole.step());
            assert_eq!(limited.left(), left);
        }
        let clock = limited.clock();
        assert_eq!(clock.map(|clock| clock.steps), Some(7));
        // With more epochs it goes on from there.
        let mut resumed = Schedule::new(&config(4, None), 5, 10, clock);
        assert_eq!((resumed.begun(), resumed.left()), (7, usize::MAX));
        // Two epochs of five steps are left, and the cosine ends with them, as that of 17 steps.
        let mut whole = Schedule::new(&config(1, None), 17, 7, None);
        (0..5).for_each(|_| assert_eq!(resumed.step(), whole.step()));
        // Resumed again, it knows the number of its steps.
        let again = Schedule::new(&config(4, None), 5, 15, resumed.clock());
        assert_eq!((again.begun(), again.steps), (12, 17));
    }

    #[test]
    fn a_limit_of_time_ends_the_cosine() {
        let config = TrainConfig {
            epochs: 100,
            learning_rate: 0.5,
            max_minutes: Some(2.0),
            ..TrainConfig::default()
        };
        let before = TrainingClock {
            seconds: 20.0,
            validation_seconds: 0.0,
            steps: 5,
        };
        let mut schedule = Schedule::new(&config, 5, 9, Some(before));
        assert_eq!(schedule.begun(), 5);
        fn set(schedule: &mut Schedule, seconds: u64) {
            schedule.clock.as_mut().unwrap().elapsed = Duration::from_secs(seconds);
        }
        let mut rate_at = |seconds: u64| {
            set(&mut schedule, seconds);
            let (rate, is_over) = (schedule.step(), schedule.is_out_of_time());
            (rate, is_over, schedule.clock().map(|clock| clock.seconds))
        };
        // 20 of 120 seconds are over, far more than 5 of 500 steps.
        let middle = |progress: f64| 0.005 + 0.5 * 0.495 * (1.0 + (progress * PI).cos());
        assert_eq!(rate_at(0), (middle(20.0 / 120.0), false, Some(20.0)));
        assert_eq!(rate_at(40), (middle(0.5), false, Some(60.0)));
        assert!(!rate_at(99).1 && rate_at(100).1);
        assert!((rate_at(500).0 - 0.005).abs() < 1e-12);
        // The last validation is in the time.
        schedule.reserve(Duration::from_secs(30));
        set(&mut schedule, 69);
        assert!(!schedule.is_out_of_time());
        set(&mut schedule, 70);
        assert!(schedule.is_out_of_time());
    }
}
