//! CPU kernels of attention, on plain slices.

#![warn(missing_docs)]

mod mask;
mod rows;
mod simd;

pub use mask::Mask;
pub use rows::Rows;
pub use simd::{Level, Real};
