//! The arithmetic of the loops.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A type to compute in: `f64` for the oracle, `f32` for the error of a plain composition.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Div<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Sub<Output = Self>
    + Sum
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Minus infinity, which masks a pair.
    const MASKED: Self;

    /// The nearest number.
    fn of(x: f64) -> Self;
    /// The same number as `f64`.
    fn wide(self) -> f64;
    /// `e^x`
    fn exp(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
}

macro_rules! real {
    ($($type:ident)*) => {$(
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const MASKED: Self = Self::NEG_INFINITY;

            fn of(x: f64) -> Self {
                x as Self
            }

            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn exp(self) -> Self {
                self.exp()
            }

            fn tanh(self) -> Self {
                self.tanh()
            }
        }
    )*};
}

real! { f32 f64 }

/// `1 / (1 + e^-x)`
pub(crate) fn sigmoid<E: Real>(x: E) -> E {
    E::ONE / (E::ONE + (-x).exp())
}
