//! Sigmoid and hyperbolic tangent.

use super::{Float, MAX_LANES, Simd};

/// A sigmoid, `1 / (1 + e^-x)`, stored as its distance to the nearer end.
///
/// Near 1 an element has few bits for its distance to 1, by which a kept state changes in each of many steps. Computed
/// from `e^-|x|`, the distance is as accurate there, relatively, as at 0.
pub(crate) struct Sigmoid<V, M> {
    is_near_one: M,
    distance: V,
}

impl<V: Copy, M: Copy> Sigmoid<V, M> {
    /// The sigmoid of `x`.
    #[inline(always)]
    pub(crate) fn of<E: Float, S: Simd<E, V = V, M = M>>(simd: S, x: V) -> Self {
        let power = simd.exp(simd.min(x, simd.neg(x)));
        let larger = simd.reciprocal(simd.add(power, simd.splat(E::ONE)));
        Self {
            is_near_one: simd.less(simd.zero(), x),
            distance: simd.mul(power, larger),
        }
    }

    /// The value of the sigmoid.
    #[inline(always)]
    pub(crate) fn value<E: Float, S: Simd<E, V = V, M = M>>(&self, simd: S) -> V {
        let below_one = simd.sub(simd.splat(E::ONE), self.distance);
        simd.select(self.is_near_one, below_one, self.distance)
    }

    /// The derivative, `y (1 - y)` where the sigmoid is `y`.
    #[inline(always)]
    pub(crate) fn slope<E: Float, S: Simd<E, V = V, M = M>>(&self, simd: S) -> V {
        simd.mul(self.distance, simd.sub(simd.splat(E::ONE), self.distance))
    }

    /// `y one + (1 - y) zero` where the sigmoid is `y`: computed from the nearer of both, so that a fully kept element
    /// does not change.
    #[inline(always)]
    pub(crate) fn between<E: Float, S: Simd<E, V = V, M = M>>(
        &self,
        simd: S,
        zero: V,
        one: V,
    ) -> V {
        let near = simd.select(self.is_near_one, one, zero);
        let far = simd.select(self.is_near_one, zero, one);
        simd.mul_add(self.distance, simd.sub(far, near), near)
    }
}

/// `tanh(x) = x + x^3 (C[0] + C[1] x^2 + ...)` for `|x| < 0.625`, a minimax fit as in Cephes' `tanhf`.
#[allow(clippy::excessive_precision, reason = "as published")]
const TANH: [f64; 5] = [
    -3.333_328_194_22e-1,
    1.333_144_220_36e-1,
    -5.373_971_555_31e-2,
    2.063_908_879_54e-2,
    -5.704_988_727_45e-3,
];
const SMALL: f64 = 0.625;

/// See [`Simd::tanh`].
#[inline(always)]
pub(super) fn tanh<E: Float, S: Simd<E>>(simd: S, x: S::V) -> S::V {
    if size_of::<E>() != size_of::<f32>() {
        let mut lanes = [E::ZERO; MAX_LANES];
        simd.store(x, &mut lanes);
        for lane in &mut lanes[..S::LANES] {
            *lane = lane.tanh();
        }
        return simd.load(&lanes);
    }
    let (zero, one) = (simd.zero(), simd.splat(E::ONE));
    let constant = |x| simd.splat(E::from_f64(x));
    let is_negative = simd.less(x, zero);
    let magnitude = simd.abs(x);
    // 1 - 2 / (e^(2|x|) + 1)
    let double = simd.add(magnitude, magnitude);
    let power = simd.exp(simd.min(constant(80.0), double));
    let large = simd.neg_mul_add(constant(2.0), simd.reciprocal(simd.add(power, one)), one);
    let large = simd.select(is_negative, simd.neg(large), large);

    let square = simd.mul(x, x);
    let [first @ .., last] = TANH;
    let mut sum = constant(last);
    for coefficient in first.into_iter().rev() {
        sum = simd.mul_add(sum, square, constant(coefficient));
    }
    let small = simd.mul_add(simd.mul(x, square), sum, x);
    simd.select(simd.less(magnitude, constant(SMALL)), small, large)
}
