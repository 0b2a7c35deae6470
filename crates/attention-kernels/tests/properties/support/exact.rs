//! The results that a kernel must come near, and how far rounding may take it from there.

use attention_kernels::AttentionReal;

/// An element, and the magnitude of what it is made of: rounding is relative to that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) value: f64,
    pub(super) size: f64,
    /// The rest that rounding cut off `value`: over thousands of terms it would exceed the error of a kernel in `f64`.
    rest: f64,
}

impl Sum {
    pub(super) fn new(value: f64, size: f64) -> Self {
        Self {
            value,
            size,
            rest: 0.0,
        }
    }

    pub(super) fn add(&mut self, value: f64, size: f64) {
        // Kahan's sum; infinity has no rest.
        let term = value + self.rest;
        let sum = self.value + term;
        self.rest = if sum.is_finite() {
            term - (sum - self.value)
        } else {
            0.0
        };
        self.value = sum;
        self.size += size;
    }
}

/// Results by name.
pub(super) type Exact = Vec<(&'static str, Vec<Sum>)>;
/// Results by name.
pub(super) type Found<E> = Vec<(&'static str, Vec<E>)>;

/// Roundings that an element of the size 1 may be off by. Thousands of cases met 6.3 at most, where a `tanh` saturates
/// and its derivative is what rounding leaves.
const ROUNDINGS: f64 = 10.0;

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
            let found = found.to_f64();
            let error = (found - exact.value).abs();
            let bound = ROUNDINGS * epsilon * exact.size + smallest;
            assert!(
                found == exact.value || error <= bound,
                "{name}[{at}]: {found:e}, not {:e}: error {error:e} above {bound:e}: {what}",
                exact.value
            );
        }
    }
}

/// The same bits, the sign of zero aside.
pub(super) fn assert_same<E: AttentionReal>(what: &str, found: &Found<E>, expected: &Found<E>) {
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len(), "{name}: {what}");
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                found == expected,
                "{name}[{at}]: {found}, not {expected}: {what}"
            );
        }
    }
}
