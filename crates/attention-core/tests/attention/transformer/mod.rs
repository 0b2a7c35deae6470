//! Transformers: layers, stacks, language models and generation.

mod activations;
mod cached;
mod generation;
mod language_model;
mod models;
mod padding;
mod references;
mod refusals;
mod sampling;
mod types;
mod weights;
