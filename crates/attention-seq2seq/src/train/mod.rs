//! Training: steps, the optimizer, and whole trainings.

mod adam;
mod average;
mod clip;
mod failure;
mod host;
mod interrupter;
mod meter;
mod observer;
mod order;
mod ranks;
mod schedule;
mod state;
mod step;
mod training;

pub use adam::Adam;
pub use clip::GradientNorm;
pub use interrupter::Interrupter;
pub use observer::{Split, TrainEvent, TrainObserver};
pub use ranks::{Communicator, Launched, launched_processes, sum_gradients, with_launched};
pub use step::{StepOutput, TrainOutput, Trainee};
pub use training::{Training, TrainingEnd};
