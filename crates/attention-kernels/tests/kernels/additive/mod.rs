//! The additive kernels.

mod attention;
mod case;
mod differences;
mod masks;
mod oracle;
mod precision;
mod ranges;
mod run;
mod threads;
