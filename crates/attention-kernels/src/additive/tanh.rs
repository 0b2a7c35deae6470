//! The evaluations of `tanh(q + k)`, chosen by the magnitudes of the elements.
//!
//! Time without the evaluation of near elements, relative to the time with it, for a decoding step and for attention of
//! 128 queries: 1.07 and 1.11. Without bounded exponentials, a decoding step whose keys are far from 0 takes 27 times
//! as long (`cargo bench -p attention-benches --bench bets`).

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};

use super::range::{Bounds, Evaluation, Magnitude, NEAR, bounded};
use crate::rows::Row;
use crate::tiles::{KEY_LANES, UNIT_LANES};

/// One [`Evaluation`].
pub(super) trait Tanh {
    /// Whether a gradient of 0 must add nothing, whatever the key holds: it may be masked, and not finite.
    const SKIPS_ZERO: bool = false;

    /// A denominator `d = (m / w) (1 + a c)`, bounded so that a product of two stays in range.
    fn denominator<E: Real, S: Simd<E>>(simd: S, d: S::V) -> S::V;

    /// As [`negative_tanh`](Self::negative_tanh), where no element is evaluated from the sum.
    fn negative_tanh_of_near<E: Real, S: Simd<E>>(simd: S, half_query: S::V, key: S::V) -> S::V;

    /// `-tanh(q + k)` from `e^(2q) / 2` and `e^(2k)`; `units` locates the elements themselves.
    #[inline(always)]
    fn negative_tanh<'a, E: Real, S: Simd<E>>(
        simd: S,
        half_query: S::V,
        key: S::V,
        _units: impl FnOnce() -> Units<'a, E>,
    ) -> S::V {
        Self::negative_tanh_of_near(simd, half_query, key)
    }
}

/// The place of a vector of units of a query and a key.
pub(super) struct Units<'a, E> {
    pub query: Row<'a, E>,
    pub key: Row<'a, E>,
    /// The first unit.
    pub first: usize,
}

/// From the exponentials of near elements, which need no bounds.
pub(super) struct Near;

/// From bounded exponentials; for near elements, the same result to the bit.
pub(super) struct Bounded;

/// From the sum of query and key where the magnitudes call for it, and as [`Bounded`] elsewhere.
pub(super) struct Exact;

impl Tanh for Near {
    #[inline(always)]
    fn denominator<E: Real, S: Simd<E>>(_simd: S, d: S::V) -> S::V {
        d
    }

    /// `1/x - 1` with `x = (1 + a c) / 2`.
    #[inline(always)]
    fn negative_tanh_of_near<E: Real, S: Simd<E>>(simd: S, half_query: S::V, key: S::V) -> S::V {
        let half = simd.splat(E::from_f64(0.5));
        simd.reciprocal_less_one(simd.mul_add(half_query, key, half))
    }
}

impl Tanh for Bounded {
    #[inline(always)]
    fn denominator<E: Real, S: Simd<E>>(simd: S, d: S::V) -> S::V {
        bounded(simd, d, Bounds::of::<E>().denominator)
    }

    /// As [`Near`], but a saturated tanh of elements that are not near is exactly 1.
    #[inline(always)]
    fn negative_tanh_of_near<E: Real, S: Simd<E>>(simd: S, half_query: S::V, key: S::V) -> S::V {
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
}

impl Tanh for Exact {
    const SKIPS_ZERO: bool = true;

    #[inline(always)]
    fn denominator<E: Real, S: Simd<E>>(simd: S, d: S::V) -> S::V {
        Bounded::denominator(simd, d)
    }

    #[inline(always)]
    fn negative_tanh_of_near<E: Real, S: Simd<E>>(simd: S, half_query: S::V, key: S::V) -> S::V {
        Bounded::negative_tanh_of_near(simd, half_query, key)
    }

    #[inline(always)]
    fn negative_tanh<'a, E: Real, S: Simd<E>>(
        simd: S,
        half_query: S::V,
        key: S::V,
        units: impl FnOnce() -> Units<'a, E>,
    ) -> S::V {
        let bounded = Bounded::negative_tanh_of_near(simd, half_query, key);
        let mut negative_tanh = [E::ZERO; UNIT_LANES];
        simd.store(bounded, &mut negative_tanh);
        simd.call(FromSums {
            units: units(),
            negative_tanh: &mut negative_tanh,
        });
        simd.load(&negative_tanh)
    }
}

/// Corrects `-tanh` where it has to be evaluated from the sum of query and key. Compiled once for each instruction set.
struct FromSums<'a, 'b, E> {
    units: Units<'a, E>,
    /// The result of [`Bounded`].
    negative_tanh: &'b mut [E; UNIT_LANES],
}

impl<E: Real> Job<E> for FromSums<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Units { query, key, first } = self.units;
        let range = first.min(query.len())..query.len().min(first + S::LANES);
        let mut both = [[E::ZERO; UNIT_LANES]; 2];
        for (row, to) in [query, key].into_iter().zip(&mut both) {
            row.part(range.clone()).copy_to(&mut to[..range.len()]);
        }
        let [query, other] = &both;
        let mut inside = [E::ONE; UNIT_LANES];
        for (inside, (query, key)) in inside.iter_mut().zip(query.iter().zip(other)) {
            if Magnitude::of(*query).with(Magnitude::of(*key)) == Evaluation::Exact {
                *inside = E::ZERO;
            }
        }
        let r = complement(simd, simd.add(simd.load(query), simd.load(other)));
        let exact = simd.sub(simd.add(r, r), simd.splat(E::ONE));
        let bounded = simd.load(self.negative_tanh);
        let is_inside = simd.less(simd.zero(), simd.load(&inside));
        simd.store(simd.select(is_inside, bounded, exact), self.negative_tanh);
    }
}

/// 1 where `x` in `factor e^(2x)` is near or slightly beyond, else 0.
#[inline(always)]
fn are_near<E: Real, S: Simd<E>>(simd: S, exponential: S::V, factor: f64) -> S::V {
    let most = (2.0 * NEAR + 0.01).exp();
    let bound = |x: f64| simd.splat(E::from_f64(factor * x));
    let (zero, one) = (simd.zero(), simd.splat(E::ONE));
    let below = simd.select(simd.less(exponential, bound(most)), one, zero);
    simd.select(simd.less(bound(1.0 / most), exponential), below, zero)
}

/// The lanes, as 1 among zeros, whose element and `x` are evaluated from their sum; `None` without such lanes.
#[inline(always)]
pub(super) fn exact_lanes<E: Real>(x: E, others: &[E; KEY_LANES]) -> Option<[E; KEY_LANES]> {
    let magnitude = Magnitude::of(x);
    let mut lanes = [E::ZERO; KEY_LANES];
    let mut some = false;
    for (lane, other) in lanes.iter_mut().zip(others) {
        if magnitude.with(Magnitude::of(*other)) == Evaluation::Exact {
            *lane = E::ONE;
            some = true;
        }
    }
    some.then_some(lanes)
}

/// `(1 - tanh(x)) / 2 = 1 / (1 + e^(2x))`, from `x` itself.
#[inline(always)]
pub(super) fn complement<E: Real, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    // Beyond 20 the result rounds to 0 or 1, and the reciprocal would meet infinity. NaN passes both bounds.
    let x = simd.min(simd.splat(E::from_f64(20.0)), x);
    let x = simd.max(simd.splat(E::from_f64(-20.0)), x);
    let one = simd.splat(E::ONE);
    let d = simd.add(one, simd.exp(simd.add(x, x)));
    let r = simd.reciprocal(d);
    // One step more than `reciprocal`, so that a saturated unit is exactly 0 or 1.
    simd.mul_add(r, simd.neg_mul_add(d, r, one), r)
}
