//! What a training run leaves on disk.

mod config;
mod data_source;
mod folder;

pub use config::RunConfig;
pub use data_source::DataSource;
pub use folder::RunDir;
