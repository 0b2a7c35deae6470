//! The program `seq2seq`: its files, its output and its errors.
#![allow(clippy::unwrap_used)]

mod damage;
mod data;
mod devices;
mod faults;
mod program;
mod run;
mod signals;
#[path = "../support/mod.rs"]
mod support;
