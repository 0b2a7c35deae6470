//! Training: steps, the optimizer, and the whole of it.

mod adam;
mod clip;
mod config;
mod host;
mod meter;
mod metric;
mod order;
mod progress;
mod step;
mod training;

pub use adam::Adam;
pub use config::TrainConfig;
pub use metric::{ExactMatch, ExactMatchInput};
pub use step::{StepOutput, Trainee};
pub use training::{Training, TrainingEnd};
