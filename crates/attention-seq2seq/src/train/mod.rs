//! Training with `burn-train`.

mod clip;
mod config;
mod metric;
mod progress;
mod step;
mod training;

pub use config::TrainConfig;
pub use metric::{ExactMatch, ExactMatchInput};
pub use step::{StepOutput, Trainee};
pub use training::{Trained, Training};
