//! Elements in half precision.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements in half precision, which kernels widen when they read them.
#[derive(Clone, Copy, Debug)]
pub enum Half<'a> {
    /// IEEE 754 binary16.
    F16(&'a [f16]),
    /// The upper half of an `f32`.
    Bf16(&'a [bf16]),
}

impl<'a> Half<'a> {
    /// The number of elements.
    pub fn len(self) -> usize {
        match self {
            Self::F16(elements) => elements.len(),
            Self::Bf16(elements) => elements.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of a range.
    pub fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::F16(elements) => Self::F16(&elements[range]),
            Self::Bf16(elements) => Self::Bf16(&elements[range]),
        }
    }

    pub(super) fn to_f32(self, to: &mut [f32]) {
        match self {
            Self::F16(elements) => elements.convert_to_f32_slice(to),
            Self::Bf16(elements) => elements.convert_to_f32_slice(to),
        }
    }

    pub(super) fn to_f64(self, to: &mut [f64]) {
        match self {
            Self::F16(elements) => elements.convert_to_f64_slice(to),
            Self::Bf16(elements) => elements.convert_to_f64_slice(to),
        }
    }
}
