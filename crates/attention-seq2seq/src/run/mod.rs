//! Runs: their settings, data and folders.

mod config;
mod data_source;
mod folder;
mod history;
mod journal;
mod lock;
mod manifest;
mod select;
mod streams;
mod train_config;

pub use config::RunConfig;
pub(crate) use config::check_max_len;
pub use data_source::DataSource;
pub use folder::RunDir;
pub use history::{Epoch, Figures};
pub(crate) use journal::{CheckpointFiles, Journal};
pub use lock::RunLock;
pub(crate) use manifest::{Manifest, Part, TrainingClock};
pub use select::Select;
pub use train_config::TrainConfig;
