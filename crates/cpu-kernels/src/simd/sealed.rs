//! Traits that other crates use but cannot implement.

/// Elements and tokens.
pub trait Sealed {}

impl Sealed for f32 {}
impl Sealed for f64 {}
