//! Files become parameters, or an error of one line; parameters of others compute what theirs did.
#![allow(clippy::unwrap_used)]

#[path = "../../../tensor-files/tests/formats/check.rs"]
mod check;

mod additive;
mod changed;
mod files;
mod formats;
mod frameworks;
mod hostile;
mod multi_head_references;
mod packages;
mod recurrent_references;
mod weight_norm;
