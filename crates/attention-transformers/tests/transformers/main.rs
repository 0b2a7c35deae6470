//! Transformers: layers, stacks, language models, generation, and the files of others.
#![allow(clippy::unwrap_used)]

mod activations;
mod beams;
mod burn_nn;
mod burn_store;
mod cached;
mod encoder_decoder;
mod generation;
mod hub;
mod import_layouts;
mod language_model;
mod masked_language_model;
mod models;
mod norms;
mod padding;
mod position_bias;
mod quantized;
pub(crate) mod references;
mod refusals;
mod sampling;
mod search;
mod toolkits;
mod torch;
mod types;
mod weights;
