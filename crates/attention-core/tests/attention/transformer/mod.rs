//! Transformers: layers, stacks, language models and generation.

mod activations;
mod cached;
mod encoder_decoder;
mod generation;
mod language_model;
mod masked_language_model;
mod models;
mod norms;
mod padding;
mod position_bias;
pub(crate) mod references;
mod refusals;
mod sampling;
mod types;
mod weights;
