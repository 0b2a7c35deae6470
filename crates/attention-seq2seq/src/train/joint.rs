//! A step of several devices together, each with a share of the batch.
//!
//! The loss of a batch is the mean over its target tokens: the mean of the shares' losses, weighted by their target
//! tokens. So are its gradients. The first device adds them up, clips them and steps; the others are sent the new
//! parameters with the next step. As `MultiDeviceOptim::OptimMainDevice` of burn-train, which adds gradients up.

use std::sync::Arc;

use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Device, Int, Tensor};

use super::clip::Squares;
use super::meter::failed;
use super::on_host::OnHost;
use super::peer::{Done, Ended, Job, Peer};
use super::step::{Share, StepOutput, TrainOutput, Trainee};
use crate::batch::{Batch, stacked};
use crate::error::Result;
use crate::examples::Example;
use crate::model::Seq2SeqModel;

/// The devices of a training.
pub(super) struct Joint<M: Seq2SeqModel> {
    /// The device of the model.
    first: Device,
    peers: Vec<Peer<M>>,
}

impl<M: Seq2SeqModel + 'static> Joint<M> {
    /// The model's device, and further ones, all for training.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if there can be no thread for one.
    pub(super) fn new(first: Device, further: Vec<Device>) -> Result<Self> {
        let peers = further
            .into_iter()
            .map(Peer::start)
            .collect::<Result<_>>()?;
        Ok(Self { first, peers })
    }

    /// The device of the model.
    pub(super) fn first(&self) -> &Device {
        &self.first
    }

    /// Seeds the generators of all devices, each differently. Devices of one process share a generator.
    pub(super) fn seed(&self, seed: u64) {
        self.first.seed(seed);
        for (number, peer) in (1..).zip(&self.peers) {
            peer.device().seed(seed.wrapping_add(number));
        }
    }

    /// A step of teacher forcing by all devices.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if a device fails.
    pub(super) fn train_step(
        &self,
        trainee: &Trainee<M>,
        examples: Vec<Example>,
        squares: Squares,
    ) -> Result<TrainOutput> {
        let tokens = target_tokens(&examples);
        let mut shares = dealt(examples, 1 + self.peers.len()).into_iter();
        let own = shares.next().unwrap_or_default();
        let shares: Vec<Vec<Example>> = shares.filter(|share| !share.is_empty()).collect();
        let busy = &self.peers[..shares.len()];
        let weight = |share: &[Example]| target_tokens(share) as f64 / tokens as f64;
        if !busy.is_empty() {
            let parameters = Arc::new(OnHost::parameters(trainee).map_err(failed)?);
            for (peer, examples) in busy.iter().zip(shares) {
                peer.begin(Job {
                    trainee: trainee.clone(),
                    parameters: parameters.clone(),
                    weight: weight(&examples),
                    examples,
                });
            }
        }
        let batch = Batch::new(&own, &self.first);
        let mut sum = Sum::begin(trainee, trainee.share(batch, weight(&own)));
        let flushed = self.first.flush();
        // All are waited for, whatever the others answer: the next answer of each is for the next step.
        let all: Vec<Ended> = busy.iter().map(Peer::wait).collect();
        for ended in all {
            sum.add(ended.result()?);
        }
        flushed.map_err(failed)?;
        Ok(trainee.clipped(sum.end(tokens), squares))
    }
}

/// The target tokens of examples, their ends included.
fn target_tokens(examples: &[Example]) -> usize {
    examples.iter().map(Example::target_len).sum()
}

/// Deals examples as cards: where they are sorted by length, each of `count` shares gets all lengths. Shares differ by
/// an example at most, and only the last ones get none.
fn dealt(examples: Vec<Example>, count: usize) -> Vec<Vec<Example>> {
    let mut shares = vec![Vec::new(); count];
    for (at, example) in examples.into_iter().enumerate() {
        shares[at % count].push(example);
    }
    shares
}

/// The shares of a step, added up on the first device.
struct Sum<'a, M: Seq2SeqModel> {
    trainee: &'a Trainee<M>,
    gradients: GradientsAccumulator<Trainee<M>>,
    loss: Tensor<1>,
    outputs: Vec<Tensor<2, Int>>,
    targets: Vec<Tensor<2, Int>>,
}

impl<'a, M: Seq2SeqModel> Sum<'a, M> {
    fn begin(trainee: &'a Trainee<M>, own: Share) -> Self {
        let Share { gradients, output } = own;
        let mut sum = Self {
            trainee,
            gradients: GradientsAccumulator::new(),
            loss: output.loss,
            outputs: vec![output.outputs],
            targets: vec![output.targets],
        };
        sum.add_gradients(gradients);
        sum
    }

    fn add_gradients(&mut self, gradients: GradientsParams) {
        self.gradients.accumulate(self.trainee, gradients);
    }

    fn add(&mut self, done: Done) {
        let device = self.loss.device();
        let Done {
            gradients,
            loss,
            outputs,
            targets,
        } = done;
        self.add_gradients(gradients.into_gradients(self.trainee, &device));
        self.loss = self.loss.clone() + loss;
        self.outputs.push(Tensor::from_data(outputs, &device));
        self.targets.push(Tensor::from_data(targets, &device));
    }

    fn end(mut self, tokens: usize) -> Share {
        Share {
            gradients: self.gradients.grads(),
            output: StepOutput {
                loss: self.loss,
                tokens,
                outputs: stacked(self.outputs),
                targets: stacked(self.targets),
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
