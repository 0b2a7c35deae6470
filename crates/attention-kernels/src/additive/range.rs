//! How far from 0 the elements of queries and keys may be, and which path of the kernels takes them.
//!
//! The score multiplies two denominators, `d1 d2` with `d = (m / w) (1 + a c)`, which must stay below the largest number.
//! Of the 43.6 that `ln d` may reach in `f32`, a weight's `m / w` takes at most 13, and `1 + a c` at most
//! `2 * 15 + ln 2` where `|2q|` and `|2k|` are within 15. Beyond, each denominator is bounded before they are multiplied,
//! so that `a` and `c` may be as large as one product alone allows. The backward pass has one product alone.
//!
//! An element beyond that limit counts as the limit. With an element of the other side that is not [wild](Reach::Wild),
//! their sum is so large that its tanh is 1 either way. What remains, two wild elements and what is not finite, takes
//! `tanh` of the sum itself.

use std::ops::Range;

use super::BLOCK;
use crate::rows::Row;
use crate::simd::{MAX_LANES, Real, Simd};

/// The bounds for one type of number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Beyond, an element is wild: the limit less what it takes for tanh to be 1.
    wild: f64,
    /// What elements are bounded to: `e^(4 limit)` is finite, and so is its inverse.
    limit: f64,
    /// What denominators are bounded to: its square and the inverse of that are normal numbers.
    denominator: f64,
}

impl Bounds {
    pub(super) const F32: Self = Self {
        wild: 11.5,
        limit: 21.5,
        denominator: 8e18,
    };
    pub(super) const F64: Self = Self {
        wild: 130.0,
        limit: 150.0,
        denominator: 1e150,
    };
}

/// The largest magnitude of elements that need no bounds.
const NEAR: f64 = 7.5;

/// The largest `m / |w|`, `e^13`.
pub(super) const MOST_INVERSE: f64 = 442_413.0;

/// How far from 0 some elements are: the farthest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Near,
    Far,
    Wild,
    NotFinite,
}

/// How elements of queries and keys are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// As they are.
    Fast,
    /// With bounded denominators.
    Bounded,
    /// Some by the tanh of their sum.
    Slow,
}

impl Reach {
    #[inline(always)]
    pub(super) fn of<E: Real>(x: E) -> Self {
        let magnitude = x.abs();
        if magnitude < E::from_f64(NEAR) {
            Self::Near
        } else if magnitude < E::from_f64(E::BOUNDS.wild) {
            Self::Far
        } else if magnitude.is_finite() {
            Self::Wild
        } else {
            Self::NotFinite
        }
    }

    #[inline(always)]
    pub(super) fn path(self, other: Self) -> Path {
        match (self.min(other), self.max(other)) {
            (_, Self::Near) => Path::Fast,
            (_, Self::NotFinite) | (Self::Wild, _) => Path::Slow,
            _ => Path::Bounded,
        }
    }

    pub(super) fn to_number<E: Real>(self) -> E {
        E::from_f64(f64::from(self as u8))
    }

    /// The inverse of [`to_number`](Self::to_number).
    #[inline(always)]
    pub(super) fn from_number<E: Real>(number: E) -> Self {
        let all = [Self::Near, Self::Far, Self::Wild];
        let is_this = |reach: &Self| reach.to_number::<E>() == number;
        all.into_iter().find(is_this).unwrap_or(Self::NotFinite)
    }
}

/// `e^(2x)` of bounded elements, and 1 where one is not finite. Returns the reach of all.
#[inline(always)]
pub(super) fn exponentials<E: Real, S: Simd<E>>(simd: S, from: Row<E>, to: &mut [E]) -> Reach {
    match from.in_place() {
        Some(from) => exponentials_of(simd, to, |part| match part.len() == S::LANES {
            true => simd.load(&from[part]),
            false => simd.load_partial(&from[part]),
        }),
        None => exponentials_of(simd, to, |part| {
            let mut wide = [E::ZERO; MAX_LANES];
            let len = part.len();
            from.part(part).copy_to(&mut wide[..len]);
            simd.load(&wide)
        }),
    }
}

/// Of elements that `load` loads a vector at a time, the last one filled with zeros.
#[inline(always)]
fn exponentials_of<E: Real, S: Simd<E>>(
    simd: S,
    to: &mut [E],
    load: impl Fn(Range<usize>) -> S::V,
) -> Reach {
    let (mut largest, mut finite) = (simd.zero(), simd.splat(E::ONE));
    let len = to.len();
    let mut chunks = to.chunks_exact_mut(S::LANES);
    let mut first = 0;
    for to in chunks.by_ref() {
        let x = load(first..first + S::LANES);
        simd.store(exponential(simd, x, &mut largest, &mut finite), to);
        first += S::LANES;
    }
    if first < len {
        let x = load(first..len);
        let e = exponential(simd, x, &mut largest, &mut finite);
        simd.store_partial(e, chunks.into_remainder());
    }
    match simd.sum(finite) == E::from_f64(S::LANES as f64) {
        true => Reach::of(simd.largest(largest)),
        false => Reach::NotFinite,
    }
}

/// Raises the magnitudes in `largest`, and sets `finite` to 0 where `x` is not.
#[inline(always)]
fn exponential<E: Real, S: Simd<E>>(
    simd: S,
    x: S::V,
    largest: &mut S::V,
    finite: &mut S::V,
) -> S::V {
    let (zero, one) = (simd.zero(), simd.splat(E::ONE));
    let magnitude = simd.max(simd.sub(zero, x), x);
    // NaN compares false.
    let is_finite = simd.less(magnitude, simd.splat(E::INFINITY));
    *finite = simd.min(*finite, simd.select(is_finite, one, zero));
    *largest = simd.max(simd.select(is_finite, magnitude, zero), *largest);
    let bounded = bounded(simd, x, E::BOUNDS.limit);
    simd.select(is_finite, simd.exp(simd.add(bounded, bounded)), one)
}

/// A denominator within its bounds.
#[inline(always)]
pub(super) fn bounded_denominator<E: Real, S: Simd<E>>(simd: S, d: S::V) -> S::V {
    bounded(simd, d, E::BOUNDS.denominator)
}

#[inline(always)]
fn bounded<E: Real, S: Simd<E>>(simd: S, x: S::V, limit: f64) -> S::V {
    let x = simd.min(x, simd.splat(E::from_f64(limit)));
    simd.max(x, simd.splat(E::from_f64(-limit)))
}

/// `-tanh(q + k)` from `e^(2q) / 2` and `e^(2k)`: `1/x - 1` with `x = (1 + a c) / 2`.
#[inline(always)]
pub(super) fn negative_tanh<E: Real, S: Simd<E>>(simd: S, half_query: S::V, key: S::V) -> S::V {
    let half = simd.splat(E::from_f64(0.5));
    simd.reciprocal_less_one(simd.mul_add(half_query, key, half))
}

/// The same, of near elements to the bit; where one is not near, a saturated tanh is exactly 1.
#[inline(always)]
pub(super) fn negative_tanh_of_far<E: Real, S: Simd<E>>(
    simd: S,
    half_query: S::V,
    key: S::V,
) -> S::V {
    let (one, half) = (simd.splat(E::ONE), simd.splat(E::from_f64(0.5)));
    let x = simd.mul_add(half_query, key, half);
    let r = simd.reciprocal(x);
    // As in `complement`.
    let r = simd.mul_add(r, simd.neg_mul_add(x, r, one), r);
    let precise = simd.sub(r, one);
    let near_key = are_near(simd, key, 1.0);
    let near = simd.mul(near_key, are_near(simd, half_query, 0.5));
    let take = simd.less(simd.zero(), near);
    simd.select(take, simd.reciprocal_less_one(x), precise)
}

/// 1 where `factor e^(2x)` is that of a near element or of one a little beyond, else 0.
#[inline(always)]
fn are_near<E: Real, S: Simd<E>>(simd: S, exponential: S::V, factor: f64) -> S::V {
    let most = (2.0 * NEAR + 0.01).exp();
    let bound = |x: f64| simd.splat(E::from_f64(factor * x));
    let (zero, one) = (simd.zero(), simd.splat(E::ONE));
    let below = simd.select(simd.less(exponential, bound(most)), one, zero);
    simd.select(simd.less(bound(1.0 / most), exponential), below, zero)
}

/// Which of a row of elements come together with `x` by the tanh of their sum, as 1 among zeros; `None` if none does.
#[inline(always)]
pub(super) fn apart<E: Real>(x: E, others: &[E; BLOCK]) -> Option<[E; BLOCK]> {
    let reach = Reach::of(x);
    let mut apart = [E::ZERO; BLOCK];
    let mut some = false;
    for (apart, other) in apart.iter_mut().zip(others) {
        if reach.path(Reach::of(*other)) == Path::Slow {
            *apart = E::ONE;
            some = true;
        }
    }
    some.then_some(apart)
}

/// `(1 - tanh(x)) / 2 = 1 / (1 + e^(2x))`, from `x` itself.
#[inline(always)]
pub(super) fn complement<E: Real, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    // Beyond 20 the result is 0 or 1 to rounding, and the reciprocal would meet infinity. NaN passes both bounds.
    let x = simd.min(simd.splat(E::from_f64(20.0)), x);
    let x = simd.max(simd.splat(E::from_f64(-20.0)), x);
    let one = simd.splat(E::ONE);
    let d = simd.add(one, simd.exp(simd.add(x, x)));
    let r = simd.reciprocal(d);
    // Once more than `reciprocal` needs: a saturated unit is exactly 0 or 1.
    simd.mul_add(r, simd.neg_mul_add(d, r, one), r)
}
