#![doc = include_str!("../README.md")]

mod attention;
mod case;
mod check;
mod decoding;
mod dropout;
mod feed_forward;
mod layers;
mod own;
mod recurrent;
mod report;
mod rotation;
mod self_check;
#[cfg(test)]
mod tests;

pub use report::{Direction, SelfCheck, SelfCheckReport};
pub use self_check::self_check;
