//! Language models of Hugging Face's.

mod encoders;
mod folder;
mod references;
mod refusals;
mod variants;
