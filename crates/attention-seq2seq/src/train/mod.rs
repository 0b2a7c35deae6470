//! Training with `burn-train`.

mod adam;
mod clip;
mod config;
mod host;
mod metric;
mod progress;
mod step;
mod training;

pub use adam::Adam;
pub use config::TrainConfig;
pub use metric::{ExactMatch, ExactMatchInput};
pub use step::{StepOutput, Trainee};
pub use training::{Trained, Training};
