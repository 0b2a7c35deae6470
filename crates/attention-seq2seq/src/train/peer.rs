//! A device beside the first, which computes a share of each step.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::{Device, TensorData};
use rayon::Yield;

use super::Trainee;
use super::meter::failed;
use super::on_host::OnHost;
use super::step::Share;
use crate::batch::{Batch, target_data};
use crate::error::{Error, Result};
use crate::examples::Example;
use crate::model::Seq2SeqModel;

/// A device, and the thread that drives it: the devices of a step compute at the same time.
pub(super) struct Peer<M: Seq2SeqModel> {
    device: Device,
    jobs: Sender<Job<M>>,
    done: Receiver<thread::Result<Result<Done>>>,
}

/// A share of a step to compute.
pub(super) struct Job<M: Seq2SeqModel> {
    /// The trainee, on any device. Each is the same but for its parameters.
    pub(super) trainee: Trainee<M>,
    /// Its parameters.
    pub(super) parameters: Arc<OnHost>,
    pub(super) examples: Vec<Example>,
    /// The factor of the loss.
    pub(super) weight: f64,
}

/// The result of a share.
pub(super) struct Done {
    pub(super) gradients: OnHost,
    /// The loss, times its factor.
    pub(super) loss: f64,
    /// `[examples, tokens]`, as the targets.
    pub(super) outputs: TensorData,
    pub(super) targets: TensorData,
}

impl<M: Seq2SeqModel + 'static> Peer<M> {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Config`] if there can be no further thread.
    pub(super) fn start(device: Device) -> Result<Self> {
        let (jobs, begun) = mpsc::channel::<Job<M>>();
        let (answers, done) = mpsc::channel();
        let of_thread = device.clone();
        let work = move || {
            let mut placed = None;
            for job in begun {
                let compute = || job.compute(&mut placed, &of_thread);
                let answer = catch_unwind(AssertUnwindSafe(compute));
                if answers.send(answer).is_err() {
                    break;
                }
            }
        };
        let named = thread::Builder::new().name(format!("{device:?}"));
        let started = named.spawn(work);
        started.map_err(|error| Error::config("a device", "a thread for it", error))?;
        Ok(Self { device, jobs, done })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn begin(&self, job: Job<M>) {
        self.jobs
            .send(job)
            .expect("the thread ends with this end of the channel");
    }

    /// Waits for the job that was begun.
    pub(super) fn wait(&self) -> Ended {
        const PAUSE: Duration = Duration::from_micros(100);
        // A thread of a pool computes meanwhile: what the job has to compute on a CPU may wait for this very one.
        while rayon::current_thread_index().is_some() {
            match self.done.try_recv() {
                Ok(answer) => return Ended(answer),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {}
            }
            if rayon::yield_now() != Some(Yield::Executed) {
                thread::sleep(PAUSE);
            }
        }
        Ended(self.done.recv().expect("each job is answered"))
    }
}

/// A job that has ended.
pub(super) struct Ended(thread::Result<Result<Done>>);

impl Ended {
    /// The result.
    ///
    /// # Errors
    /// [`Error::Config`] if the device failed.
    ///
    /// # Panics
    /// If the job did.
    pub(super) fn result(self) -> Result<Done> {
        self.0.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<M: Seq2SeqModel> Job<M> {
    /// Computes the share. The trainee is on the device since the first one: tensors of a model that are no parameters
    /// move once.
    fn compute(self, placed: &mut Option<Trainee<M>>, device: &Device) -> Result<Done> {
        let Self {
            trainee,
            parameters,
            examples,
            weight,
        } = self;
        let trainee = match placed.take() {
            Some(placed) => parameters.load_into(placed, device),
            None => parameters.load_into(trainee, device).fork(device),
        };
        drop(parameters);
        *placed = Some(trainee.clone());
        let batch = Batch::new(&examples, device);
        let Share { gradients, output } = trainee.share(batch, weight);
        let loss_and_gradients = OnHost::gradients(output.loss, &gradients, &trainee);
        let (loss, gradients) = loss_and_gradients.map_err(failed)?;
        Ok(Done {
            gradients,
            loss,
            outputs: output.outputs.try_into_data().map_err(failed)?,
            targets: target_data(&examples),
        })
    }
}
