//! A training run on disk: its settings, its data and its folder.

mod config;
mod data_source;
mod folder;

pub use config::RunConfig;
pub use data_source::DataSource;
pub use folder::RunDir;
