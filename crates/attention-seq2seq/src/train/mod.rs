//! Training: steps, the optimizer, and the whole of it.

mod adam;
mod average;
mod clip;
mod config;
mod host;
mod interrupter;
mod meter;
mod observer;
mod order;
mod schedule;
mod select;
mod splits;
mod state;
mod step;
mod training;

pub use adam::Adam;
pub use clip::GradientNorm;
pub use config::TrainConfig;
pub use interrupter::Interrupter;
pub use observer::{Split, TrainEvent, TrainObserver};
pub use select::Select;
pub use step::{StepOutput, TrainOutput, Trainee};
pub use training::{Training, TrainingEnd};
