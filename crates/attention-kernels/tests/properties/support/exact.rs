//! The results that a kernel must come near, and how far rounding may take it from there.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use attention_kernels::AttentionReal;
use attention_oracle::Real;

/// A number for the oracle to compute with, and how far rounding may take it, in roundings of a number of size 1.
///
/// An input is exact. The order of a sum is free, so that each of its terms may be rounded once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounded {
    value: f64,
    /// The rest that rounding cut off `value`: over thousands of terms it would exceed the error of a kernel in `f64`.
    rest: f64,
    pub(super) size: f64,
}

impl Rounded {
    pub(super) const fn new(value: f64, size: f64) -> Self {
        let rest = 0.0;
        Self { value, rest, size }
    }

    fn plus(self, other: Self, size: f64) -> Self {
        let value = self.value + other.value;
        let moved = value - self.value;
        let rest = (self.value - (value - moved)) + (other.value - moved);
        // Infinity has no rest.
        let rest = if value.is_finite() {
            self.rest + other.rest + rest
        } else {
            0.0
        };
        Self { value, rest, size }
    }
}

impl Add for Rounded {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = self.plus(other, 0.0);
        let size = self.size + other.size + sum.wide().abs();
        Self { size, ..sum }
    }
}

impl AddAssign for Rounded {
    fn add_assign(&mut self, term: Self) {
        let size = match self.value == 0.0 && self.size == 0.0 {
            true => term.size,
            false => self.size + term.size.max(term.wide().abs()),
        };
        *self = self.plus(term, size);
    }
}

impl Sum for Rounded {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::ZERO, |mut sum, term| {
            sum += term;
            sum
        })
    }
}

impl Neg for Rounded {
    type Output = Self;

    fn neg(self) -> Self {
        let (value, rest) = (-self.value, -self.rest);
        Self {
            value,
            rest,
            ..self
        }
    }
}

impl Sub for Rounded {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Rounded {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let [x, y] = [self.wide(), other.wide()];
        // The product of both roundings is all that is left where both numbers are 0.
        let both = self.size * other.size * ROUNDINGS * f64::from(f32::EPSILON);
        let size = self.size * y.abs() + x.abs() * other.size + (x * y).abs() + both;
        Self::new(x * y, size)
    }
}

impl Div for Rounded {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let [x, y] = [self.wide(), other.wide()];
        let size = (self.size + (x / y).abs() * other.size) / y.abs() + (x / y).abs();
        Self::new(x / y, size)
    }
}

impl PartialEq for Rounded {
    fn eq(&self, other: &Self) -> bool {
        self.wide() == other.wide()
    }
}

impl PartialOrd for Rounded {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.wide().partial_cmp(&other.wide())
    }
}

impl Real for Rounded {
    const ZERO: Self = Self::new(0.0, 0.0);
    const ONE: Self = Self::new(1.0, 0.0);
    const MASKED: Self = Self::new(f64::NEG_INFINITY, 0.0);

    fn of(x: f64) -> Self {
        Self::new(x, 0.0)
    }

    fn wide(self) -> f64 {
        self.value + self.rest
    }

    fn exp(self) -> Self {
        let power = self.wide().exp();
        Self::new(power, power * (self.size + 1.0))
    }

    fn tanh(self) -> Self {
        let tanh = self.wide().tanh();
        // Small ones may be as far off as large ones.
        Self::new(tanh, (1.0 - tanh * tanh) * self.size + 1.0)
    }
}

/// Results by name.
pub(super) type Exact = Vec<(&'static str, Vec<Rounded>)>;
/// Results by name.
pub(super) type Found<E> = Vec<(&'static str, Vec<E>)>;

/// Roundings that an element of the size 1 may be off by: the terms of a long sum that are about equal all round to the
/// same side. Of some thousand cases on every level the worst took 6.5.
const ROUNDINGS: f64 = 24.0;

/// Each element is the exact one, but for rounding; infinity must be met.
pub(super) fn assert_close<E: AttentionReal>(what: &str, found: &Found<E>, exact: &Exact) {
    // Below that, products of elements that are there may vanish.
    let (epsilon, smallest) = match size_of::<E>() {
        4 => (f64::from(f32::EPSILON), 1e-30),
        _ => (f64::EPSILON, 1e-280),
    };
    assert_eq!(found.len(), exact.len());
    for ((name, found), (exact_name, exact)) in found.iter().zip(exact) {
        assert_eq!(name, exact_name);
        assert_eq!(found.len(), exact.len(), "{name}: {what}");
        for (at, (found, exact)) in found.iter().zip(exact).enumerate() {
            let (found, value) = (found.to_f64(), exact.wide());
            let error = (found - value).abs();
            let bound = ROUNDINGS * epsilon * exact.size + smallest;
            let is_close = found == value || error <= bound;
            let errors = || format!("error {error:e} above {bound:e}: {what}");
            assert!(
                is_close,
                "{name}[{at}]: {found:e}, not {value:e}: {}",
                errors()
            );
        }
    }
}

/// The same bits, the sign of zero aside.
pub(super) fn assert_same<E: AttentionReal>(what: &str, found: &Found<E>, expected: &Found<E>) {
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len(), "{name}: {what}");
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let text = || format!("{name}[{at}]: {found}, not {expected}: {what}");
            assert!(found == expected, "{}", text());
        }
    }
}
