//! The element types of kernels.

use crate::buffer::Pooled;
use crate::simd::Float;

/// `f32` or `f64`.
pub trait Real: Float + Pooled {}

impl Real for f32 {}
impl Real for f64 {}
