//! The program `seq2seq`: its files, its output and its errors.
#![allow(clippy::unwrap_used)]

mod browser;
mod chromium;
mod damage;
mod data;
mod devices;
mod dictionaries;
mod disk;
mod divergence;
mod ensemble;
mod evaluation;
mod export;
mod faults;
mod formats;
mod info;
mod inputs;
mod json;
mod limits;
mod lock;
mod log;
mod outputs;
mod page;
mod program;
#[cfg(all(unix, feature = "mpi"))]
mod ranks;
mod resume;
mod run;
mod search;
#[cfg(feature = "serve")]
mod serve;
mod settings;
mod signals;
mod subwords;
mod tokens;
mod transformer;
