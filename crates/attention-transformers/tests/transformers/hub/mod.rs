//! Language models of Hugging Face's.

mod angles;
mod encoders;
mod folder;
mod references;
mod refusals;
mod variants;
