//! Shared by the tests: devices, references, comparisons and oracles.
//!
//! A test speaks of [`Array`]s (elements on the host, in f64), [`MaskSpec`]s (masks whose answer a plain loop knows)
//! and [`Problem`]s (everything that goes into one attention), runs them on every compiled-in [`device`](mod@device)
//! and compares what comes back.

#![cfg_attr(feature = "ndarray", allow(deprecated))]

mod array;
pub mod checkpoint;
mod compare;
mod concatenation;
pub mod conformance;
pub mod contract;
pub mod device;
pub mod heads;
mod mask;
mod nan;
pub mod normalizers;
pub mod oracle;
mod panics;
pub mod parameters;
mod problem;
mod reference;
mod run;
mod steps;

pub use array::Array;
pub use compare::{
    Elements, assert_all_close, assert_all_same, assert_close, assert_finite,
    assert_outcomes_close, assert_outcomes_same, assert_same, assert_zero,
};
pub use concatenation::Concatenation;
pub use mask::{MaskSpec, masks};
pub use panics::{Parts, assert_says, panic_message, refuses};
pub use problem::{Outcome, Problem, SIZES, Sizes};
pub use reference::{
    Case, HuggingFaceLogits, HuggingFaceMasked, HuggingFaceSentences, HuggingFaceTranslation,
    OnnxCase, RecurrentCase, TransformerCase, hugging_face_logits, hugging_face_masked,
    hugging_face_sentences, hugging_face_translation, near_reference, onnx_reference,
    recurrent_reference, reference, reference_path, transformer_reference,
};
pub use run::{Check, Path};
pub use steps::{Steps, StepsCheck};

/// The code of the README compiles, and runs where it is more than definitions.
#[cfg(all(doctest, feature = "flex"))]
#[doc = include_str!("../../README.md")]
struct Readme;

/// So does the code of the recipes.
#[cfg(all(doctest, feature = "flex"))]
#[doc = include_str!("../../docs/recipes.md")]
struct Recipes;
