//! The program `seq2seq`: what it leaves on disk, what it prints, and how it fails.
#![allow(clippy::unwrap_used)]

mod damage;
mod data;
mod faults;
mod program;
mod run;
mod signals;
#[path = "../support/mod.rs"]
mod support;
