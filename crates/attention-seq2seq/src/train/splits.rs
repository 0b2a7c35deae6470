//! An epoch: its steps over the examples to learn from, and over those to validate on.

use burn::tensor::Device;
use burn_fused_layers::is_in_host_memory;
use rand::RngExt;

use super::clip::Squares;
use super::meter::{Meter, failed};
use super::schedule::Schedule;
use super::state::State;
use super::{Interrupter, Split, StepOutput, TrainEvent, TrainObserver, TrainOutput};
use crate::batch::Batch;
use crate::batches::Batches;
use crate::error::Result;
use crate::examples::Examples;
use crate::model::Seq2SeqModel;
use crate::run::{Figures, Select, TrainConfig};

/// The examples to learn from and to validate on.
pub(super) struct Splits {
    pub(super) train: Batches,
    pub(super) valid: Batches,
    /// The device of the model.
    device: Device,
    /// The number of steps until one is waited for. A GPU computes on while their outputs wait to be read.
    window: usize,
    /// The figure of validation that has to be there.
    select: Select,
    /// The most tokens of an output that counts for BLEU, whatever the targets of its batch.
    most_output: usize,
}

impl Splits {
    /// Batches for a device that trains.
    pub(super) fn new(
        train: Examples,
        valid: Examples,
        config: &TrainConfig,
        device: Device,
    ) -> Self {
        const WINDOW_OF_GPU: usize = 8;
        let window = if is_in_host_memory(&device) {
            1
        } else {
            WINDOW_OF_GPU
        };
        let longest = valid.longest_target();
        Self {
            train: Batches::new(train, config.batch_size),
            valid: Batches::new(valid, config.batch_size),
            device,
            window,
            select: config.select,
            most_output: longest + longest / 4 + 2,
        }
    }

    /// Trains for an epoch, which ends early where time or steps do; `None` if it was interrupted.
    pub(super) fn train<M: Seq2SeqModel>(
        &self,
        epoch: usize,
        mut state: State<M>,
        config: &TrainConfig,
        schedule: &mut Schedule,
        interrupter: &Interrupter,
        observer: &mut dyn TrainObserver,
    ) -> Result<Option<(State<M>, Figures)>> {
        let mut random = config.random(epoch);
        self.device.seed(random.random());
        let mut order = self.train.deal(&mut random);
        order.truncate(schedule.left());
        let mut pass = Pass {
            splits: self,
            part: Part {
                epoch,
                split: Split::Train,
                batches: order.len(),
            },
            meter: Meter::new(self.window),
            interrupter,
            observer,
        };
        let mut numbers = 1..;
        for window in order.chunks(self.window) {
            if schedule.is_out_of_time() {
                break;
            }
            // The rate is that of the step's number, whatever becomes of the steps before.
            let steps = window.iter().zip(numbers.by_ref());
            let steps: Vec<Step<'_>> = steps
                .map(|(batch, number)| {
                    let rate = schedule.step();
                    Step {
                        number,
                        of_all: schedule.begun(),
                        batch,
                        rate,
                    }
                })
                .collect();
            let next = match steps[..] {
                [_] => pass.make(state, &steps)?,
                _ => pass.make_unread(state, &steps)?,
            };
            let Some(next) = next else {
                return Ok(None);
            };
            state = next;
        }
        Ok(Some((state, pass.meter.finish()?)))
    }

    /// Validates after an epoch; `None` if it was interrupted.
    pub(super) fn validate<M: Seq2SeqModel>(
        &self,
        epoch: usize,
        state: &State<M>,
        interrupter: &Interrupter,
        observer: &mut dyn TrainObserver,
    ) -> Result<Option<Figures>> {
        let model = state.model();
        let device = self.device.clone().inner();
        let part = Part {
            epoch,
            split: Split::Valid,
            batches: self.valid.len(),
        };
        let meter = Meter::new(self.window);
        let mut meter = match self.select {
            Select::Bleu => meter.with_bleu(),
            Select::Loss | Select::ErrorRate => meter,
        };
        for batch in 0..self.valid.len() {
            if interrupter.should_stop() {
                return Ok(None);
            }
            let examples = self.valid.get(batch);
            let of_examples = Batch::new(&examples, &device);
            meter.add(match self.select {
                Select::Bleu => model.valid_step_within(of_examples, self.most_output),
                Select::Loss | Select::ErrorRate => model.valid_step(of_examples),
            })?;
            observer.observe(&part.batch_done(batch + 1, &meter));
        }
        Ok(Some(meter.finish()?))
    }
}

/// The part of an epoch.
#[derive(Clone, Copy)]
struct Part {
    epoch: usize,
    split: Split,
    batches: usize,
}

impl Part {
    /// So many batches are done.
    fn batch_done(self, done: usize, meter: &Meter) -> TrainEvent {
        let Self {
            epoch,
            split,
            batches,
        } = self;
        TrainEvent::BatchDone {
            epoch,
            split,
            done,
            batches,
            figures: meter.figures(),
        }
    }
}

/// A step to make.
struct Step<'a> {
    /// The number in the epoch, from 1.
    number: usize,
    /// The number in the whole training, from 1.
    of_all: usize,
    /// The examples, as they were dealt.
    batch: &'a [u32],
    rate: f64,
}

/// The training of an epoch.
struct Pass<'a> {
    splits: &'a Splits,
    part: Part,
    meter: Meter,
    interrupter: &'a Interrupter,
    observer: &'a mut dyn TrainObserver,
}

impl Pass<'_> {
    /// Makes each step once its loss and the norm of its gradients are known to be finite, and else refuses it; `None`
    /// if it was interrupted.
    fn make<M: Seq2SeqModel>(
        &mut self,
        mut state: State<M>,
        steps: &[Step<'_>],
    ) -> Result<Option<State<M>>> {
        for step in steps {
            if self.interrupter.should_stop() {
                return Ok(None);
            }
            let made = self.compute(&state, step, Squares::Scaled);
            match made.fault(&state.trainee)? {
                None => {
                    state = state.step(step.of_all, step.rate, made.gradients);
                    self.count(step, made.output)?;
                }
                Some(reason) => {
                    let Part { epoch, batches, .. } = self.part;
                    self.observer.observe(&TrainEvent::StepRefused {
                        epoch,
                        step: step.number,
                        steps: batches,
                        reason: reason.clone(),
                    });
                    state = state.refuse(epoch, step.number, reason)?;
                }
            }
        }
        Ok(Some(state))
    }

    /// Makes steps of which nothing is read before the last: one that should have been refused is found then, and they
    /// are made again, from the state before, one by one. That state stays in memory until then.
    fn make_unread<M: Seq2SeqModel>(
        &mut self,
        before: State<M>,
        steps: &[Step<'_>],
    ) -> Result<Option<State<M>>> {
        let mut state = before.clone();
        let mut all_made = Vec::new();
        for step in steps {
            if self.interrupter.should_stop() {
                return Ok(None);
            }
            // In fewer passes over gradients: their norm may be infinite where they are finite.
            let mut made = self.compute(&state, step, Squares::Plain);
            let gradients = std::mem::take(&mut made.gradients);
            state = state.step(step.of_all, step.rate, gradients);
            self.splits.device.flush().map_err(failed)?;
            all_made.push(made);
        }
        if !TrainOutput::are_finite(&all_made)? {
            return self.make(before, steps);
        }
        for (step, made) in steps.iter().zip(all_made) {
            self.count(step, made.output)?;
        }
        Ok(Some(state))
    }

    fn compute<M: Seq2SeqModel>(
        &self,
        state: &State<M>,
        step: &Step<'_>,
        squares: Squares,
    ) -> TrainOutput {
        let examples = self.splits.train.examples(step.batch);
        let batch = Batch::new(&examples, &self.splits.device);
        state.trainee.step_with(batch, squares)
    }

    /// Counts a step that was made.
    fn count(&mut self, step: &Step<'_>, output: StepOutput) -> Result<()> {
        self.meter.add(output)?;
        let event = self.part.batch_done(step.number, &self.meter);
        self.observer.observe(&event);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
