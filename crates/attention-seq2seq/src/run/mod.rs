//! A training run on disk: its settings, its data and its folder.

mod config;
mod data_source;
mod folder;
mod lock;

pub use config::RunConfig;
pub use data_source::DataSource;
pub use folder::RunDir;
pub use lock::RunLock;
