//! Language models of Hugging Face's.

mod angles;
mod encoder_decoders;
mod encoders;
mod folder;
mod references;
mod refusals;
mod sentences;
mod variants;
