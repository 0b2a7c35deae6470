//! An epoch: its steps, and its validation.

use burn::tensor::Device;
use burn_fused_layers::is_in_host_memory;
use rand::RngExt;

use crate::data::batch::Batch;
use crate::data::batches::Batches;
use crate::error::Result;
use crate::metrics::Bleu;
use crate::model::Seq2SeqModel;
use crate::run::{Figures, Select, TrainConfig};
use crate::train::clip::Squares;
use crate::train::failure::failed;
use crate::train::meter::Meter;
use crate::train::schedule::Schedule;
use crate::train::state::State;
use crate::train::{
    Communicator, Interrupter, Split, StepOutput, TrainEvent, TrainObserver, TrainOutput,
};

/// The number of steps made before their outputs are read. A GPU goes on computing while outputs wait to be read.
pub(super) fn window_of(device: &Device) -> usize {
    const OF_GPU: usize = 8;
    if is_in_host_memory(device) { 1 } else { OF_GPU }
}

/// What the epochs of a training share, except the state that steps change.
pub(super) struct Loop<'a, O> {
    pub(super) communicator: &'a dyn Communicator,
    pub(super) config: TrainConfig,
    pub(super) train: Batches,
    pub(super) valid: Batches,
    pub(super) device: Device,
    pub(super) window: usize,
    /// The largest number of tokens of an output that counts for BLEU, whatever the targets of its batch.
    pub(super) most_output: usize,
    pub(super) schedule: Schedule,
    pub(super) interrupter: Interrupter,
    /// Only the first process has an observer.
    pub(super) observer: Option<O>,
}

/// A step to be made.
struct Step<'a> {
    /// The number in the epoch, counted from 1.
    number: usize,
    /// The number in the whole training, counted from 1.
    of_all: usize,
    /// The dealt examples.
    batch: &'a [u32],
    rate: f64,
}

impl<O: TrainObserver> Loop<'_, O> {
    pub(super) fn tell(&mut self, event: &TrainEvent) {
        if let Some(observer) = &mut self.observer {
            observer.observe(event);
        }
    }

    pub(super) fn read_clock(&mut self) -> Result<()> {
        let communicator = self.communicator;
        self.schedule.read_clock(|own| communicator.first(own))
    }

    /// Trains for an epoch, which may end early by limits of time or steps, but not before its first steps, for which
    /// there was time when it began. A step is made once its loss and the norm of its gradients are known to be finite,
    /// otherwise refused.
    pub(super) fn train<M: Seq2SeqModel>(
        &mut self,
        epoch: usize,
        mut state: State<M>,
    ) -> Result<(State<M>, Figures)> {
        let mut random = self.config.random(epoch);
        self.device.seed(self.communicator.seed(random.random()));
        let mut order = self.train.deal(&mut random);
        order.truncate(self.schedule.left());
        let steps = order.len();
        let mut meter = Meter::new(self.window, None);
        let mut numbers = 1..;
        for window in order.chunks(self.window) {
            self.read_clock()?;
            if numbers.start > 1 && self.schedule.is_out_of_time() {
                break;
            }
            // The learning rate depends on the number of the step, whatever becomes of earlier steps.
            let window = window.iter().zip(numbers.by_ref());
            let window = window.map(|(batch, number)| Step {
                number,
                rate: self.schedule.step(),
                of_all: self.schedule.begun(),
                batch,
            });
            let window: Vec<Step<'_>> = window.collect();
            if let Some((next, outputs)) = self.make_unread(&state, &window)? {
                state = next;
                for (step, output) in window.iter().zip(outputs) {
                    meter.add(output)?;
                    let event = meter.event(epoch, Split::Train, step.number, steps);
                    self.tell(&event);
                }
                continue;
            }
            for step in &window {
                let made = self.compute(&state, step, Squares::Scaled)?;
                let Some(reason) = made.fault(&state.trainee)? else {
                    state = state.step(step.of_all, step.rate, made.gradients);
                    meter.add(made.output)?;
                    let event = meter.event(epoch, Split::Train, step.number, steps);
                    self.tell(&event);
                    continue;
                };
                self.tell(&TrainEvent::StepRefused {
                    epoch,
                    step: step.number,
                    steps,
                    reason: reason.clone(),
                });
                state = state.refuse(epoch, step.number, reason)?;
            }
        }
        self.communicator.sum(meter.counts()?)?;
        Ok((state, meter.finish()?))
    }

    /// Makes several steps, and reads their results only after the last; `None` if one of them should have been
    /// refused, or if there is only one. Until then, the state before the steps stays in memory.
    fn make_unread<M: Seq2SeqModel>(
        &self,
        before: &State<M>,
        steps: &[Step<'_>],
    ) -> Result<Option<(State<M>, Vec<StepOutput>)>> {
        if let [_] = steps {
            return Ok(None);
        }
        let mut state = before.clone();
        let mut all_made = Vec::new();
        for step in steps {
            // This takes fewer passes over gradients, but their norm may overflow although they are finite.
            let mut made = self.compute(&state, step, Squares::Plain)?;
            let gradients = std::mem::take(&mut made.gradients);
            state = state.step(step.of_all, step.rate, gradients);
            self.device.flush().map_err(failed)?;
            all_made.push(made);
        }
        if !TrainOutput::are_finite(&all_made)? {
            return Ok(None);
        }
        let outputs = all_made.into_iter().map(|made| made.output);
        Ok(Some((state, outputs.collect())))
    }

    /// The step of the whole batch, of which this process computes its part.
    fn compute<M: Seq2SeqModel>(
        &self,
        state: &State<M>,
        step: &Step<'_>,
        squares: Squares,
    ) -> Result<TrainOutput> {
        let trainee = &state.trainee;
        let tokens = self.train.target_tokens(step.batch);
        let backward = |share: &[u32]| {
            let examples = self.train.examples(share);
            trainee.backward(Batch::new(&examples, &self.device))
        };
        let (communicator, interrupter) = (self.communicator, &self.interrupter);
        let made = communicator.joint(trainee, step.batch, tokens, interrupter, backward)?;
        Ok(trainee.clipped(made, squares))
    }

    pub(super) fn validate<M: Seq2SeqModel>(
        &mut self,
        epoch: usize,
        state: &State<M>,
    ) -> Result<Figures> {
        let model = state.model();
        let device = self.device.clone().inner();
        let counts_bleu = self.config.select == Select::Bleu;
        let mut meter = Meter::new(self.window, counts_bleu.then(Bleu::default));
        let batches = self.valid.len();
        for batch in 0..batches {
            self.interrupter.check()?;
            let examples = Batch::new(&self.valid.get(batch), &device);
            meter.add(match counts_bleu {
                true => model.valid_step_within(examples, self.most_output),
                false => model.valid_step(examples),
            })?;
            let event = meter.event(epoch, Split::Valid, batch + 1, batches);
            self.tell(&event);
        }
        meter.finish()
    }
}
