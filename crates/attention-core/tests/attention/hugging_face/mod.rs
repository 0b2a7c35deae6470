//! Language models of Hugging Face's.

mod folder;
mod references;
mod refusals;
mod variants;
