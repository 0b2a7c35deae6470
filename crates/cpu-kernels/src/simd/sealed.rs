//! Traits that other crates use and do not implement.

/// Elements and tokens.
pub trait Sealed {}

impl Sealed for f32 {}
impl Sealed for f64 {}
