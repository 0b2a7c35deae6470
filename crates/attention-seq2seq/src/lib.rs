//! Sequence-to-sequence models with attention for [Burn](https://burn.dev), and how to train them.
//!
//! From data to a trained model, in the order of reading:
//!
//! - [`tasks`] generates pairs of source and target, [`tsv`] reads them from a file, [`data`] holds them;
//! - [`tokens`] splits text, [`vocab`] numbers tokens, [`batch`] pads them;
//! - [`attention`] lists the attentions that the program knows;
//! - [`model`] is the encoder-decoder, generic over the attention of `attention-core`;
//! - [`train`] trains it with `burn-train`, [`run`] keeps what a training leaves on disk;
//! - [`translate`] is a trained model at work, [`metrics`] says how well.

#![cfg_attr(feature = "ndarray", allow(deprecated))]

pub mod attention;
pub mod batch;
pub mod data;
pub mod device;
pub mod error;
pub mod file;
pub mod metrics;
pub mod model;
pub mod run;
pub mod tasks;
pub mod tokens;
pub mod train;
pub mod translate;
pub mod tsv;
pub mod vocab;

pub use error::{Error, Result};
