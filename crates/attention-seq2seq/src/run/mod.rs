//! Runs: their settings, data and folders.

mod averaged;
mod config;
mod data_source;
mod folder;
mod history;
mod journal;
mod lock;
mod manifest;
mod streams;

pub use config::RunConfig;
pub(crate) use config::check_max_len;
pub use data_source::DataSource;
pub use folder::RunDir;
pub use history::{Epoch, Figures};
pub(crate) use journal::{CheckpointFile, CheckpointFiles, CheckpointState, Journal};
pub use lock::RunLock;
pub(crate) use manifest::Manifest;
