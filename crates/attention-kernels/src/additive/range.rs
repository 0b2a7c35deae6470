//! The range of the elements of queries and keys, and the evaluation of `tanh` for it.
//!
//! The score multiplies two denominators, `d1 d2` with `d = (m / w) (1 + a c)`, which must stay below the largest
//! element. In `f32`, `ln d` may reach 43.6: a weight's `m / w` takes at most 13 of it, and `1 + a c` at most `2 * 15 +
//! ln 2` if `|2q|` and `|2k|` are within 15. Beyond that, each denominator is bounded before they are multiplied, so
//! that `a` and `c` only have to keep a single product `a c` in range. The backward pass only has a single product.
//!
//! An element beyond that limit is replaced by the limit. Added to an element of the other side that is not
//! [huge](Magnitude::Huge), it gives a tanh of 1 either way. The remaining cases, two huge elements and non-finite
//! ones, take `tanh` of the sum itself.

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use crate::tuning;

/// The bounds for one type of element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Elements above this are huge: the limit, less the argument for which tanh rounds to 1.
    pub huge: f64,
    /// The bound of elements: `e^(4 limit)` is finite, and so is its inverse.
    pub limit: f64,
    /// The bound of denominators: its square, and the inverse of the square, are normal.
    pub denominator: f64,
}

impl Bounds {
    /// The bounds of `f32` or `f64`.
    #[inline(always)]
    pub(super) const fn of<E: Real>() -> Self {
        if size_of::<E>() == size_of::<f32>() {
            Self {
                huge: 11.5,
                limit: 21.5,
                denominator: 8e18,
            }
        } else {
            Self {
                huge: 130.0,
                limit: 150.0,
                denominator: 1e150,
            }
        }
    }
}

/// The largest magnitude of elements that need no bounds.
pub(super) const NEAR: f64 = 7.5;

/// The largest `m / |w|`, `e^13`.
pub(super) const MOST_INVERSE: f64 = 442_413.0;

/// The magnitude of some elements: the largest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Magnitude {
    Near,
    Far,
    Huge,
    NotFinite,
}

/// How the `tanh` of queries and keys is evaluated; each way has a type in [`tanh`](super::tanh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evaluation {
    /// From their exponentials, unbounded.
    Near,
    /// With bounded denominators.
    Bounded,
    /// Some from the sum of query and key.
    Exact,
}

impl Magnitude {
    #[inline(always)]
    pub(super) fn of<E: Real>(x: E) -> Self {
        let magnitude = x.abs();
        if magnitude < E::from_f64(NEAR) {
            Self::Near
        } else if magnitude < E::from_f64(Bounds::of::<E>().huge) {
            Self::Far
        } else if magnitude.is_finite() {
            Self::Huge
        } else {
            Self::NotFinite
        }
    }

    #[inline(always)]
    pub(super) fn with(self, other: Self) -> Evaluation {
        match (self.min(other), self.max(other)) {
            (_, Self::Near) if tuning::has_near_tanh() => Evaluation::Near,
            (_, Self::NotFinite) | (Self::Huge, _) => Evaluation::Exact,
            _ if tuning::has_bounded_tanh() => Evaluation::Bounded,
            _ => Evaluation::Exact,
        }
    }

    pub(super) fn to_element<E: Real>(self) -> E {
        E::from_f64(f64::from(self as u8))
    }

    /// The inverse of [`to_element`](Self::to_element).
    #[inline(always)]
    pub(super) fn from_element<E: Real>(element: E) -> Self {
        let all = [Self::Near, Self::Far, Self::Huge];
        let is_this = |magnitude: &Self| magnitude.to_element::<E>() == element;
        all.into_iter().find(is_this).unwrap_or(Self::NotFinite)
    }
}

/// `e^(2x)` of bounded elements, and 1 for non-finite ones. Returns the magnitude of all.
///
/// `to` has just enough whole vectors for `from`; the rest of the last vector becomes 1.
#[inline(always)]
pub(super) fn exponentials<E: Real, S: Simd<E>>(simd: S, from: &[E], to: &mut [E]) -> Magnitude {
    let (zero, one) = (simd.zero(), simd.splat(E::ONE));
    let infinity = simd.splat(E::INFINITY);
    let mut largest = zero;
    for (from, to) in from.chunks(S::LANES).zip(to.chunks_exact_mut(S::LANES)) {
        let x = simd.load_partial(from);
        let magnitude = simd.max(simd.sub(zero, x), x);
        // NaN compares false.
        let is_finite = simd.less(magnitude, infinity);
        largest = simd.max(simd.select(is_finite, magnitude, infinity), largest);
        let bounded = bounded(simd, x, Bounds::of::<E>().limit);
        let e = simd.exp(simd.add(bounded, bounded));
        simd.store(simd.select(is_finite, e, one), to);
    }
    Magnitude::of(simd.largest(largest))
}

/// `x` within `-limit..=limit`.
#[inline(always)]
pub(super) fn bounded<E: Real, S: Simd<E>>(simd: S, x: S::V, limit: f64) -> S::V {
    let x = simd.min(x, simd.splat(E::from_f64(limit)));
    simd.max(x, simd.splat(E::from_f64(-limit)))
}
