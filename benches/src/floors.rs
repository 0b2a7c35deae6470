//! The least time of a work on a GPU: the most of arithmetic, reciprocals and traffic, at the rates of the device.
//!
//! Counted is what grows with the pairs of a query and a key, as our kernels cut the work, and the projections; not the
//! exponentials, which are of a row or a pair, nor masks and addresses. A multiplication or an addition alone takes as
//! long as a multiply-add, and counts as one. All arithmetic is in f32: matrix units are left out, and a candidate that
//! has them may fall below the floor.
//!
//! Dot product, of a pair: `size` for the score, `size` of a value for the context.
//!
//! Additive, of a pair and two hidden units: with `a` and `b` the exponentials `e^{2x}` of either side and `c = w a`,
//! which is of a row alone, `w tanh` is `m / d` with `d = a b + 1` and `m = c b - w`. Two units share a reciprocal:
//! `sum += (m1 d2 + m2 d1) r` with `r = 1 / (d1 d2)`. That is two each of `d` and `m`, the product `m1 d2` and the
//! multiply-add to it, `d1 d2`, and the multiply-add to the sum: 8 and a reciprocal, so 4 and a half of each unit.
//!
//! Backward has two kernels, one goes to the queries and one to the keys. Each computes the scores again, and
//! `dp = dC . v`, `size` of a pair. Then, of a pair,
//! - dot product: `size` for `dq` in the one, for `dk` in the other;
//! - additive, of each unit: `e = a b`, `e + 1`, its reciprocal `r`, `p = e r`, the derivative's `p r`, and the
//!   multiply-add of that with `ds`: 5 and a reciprocal in each kernel. The one to the queries has the gradient of the
//!   weight besides, `tanh = p - r` and its multiply-add: 2 more;
//! - both: `size` for `dv` in the one to the keys.
//!
//! In all, forward and backward of a pair: dot product `5 size + 4 size`, additive `24 hidden + 4 size` and
//! `7/2 hidden` reciprocals. A projection takes `size hidden` of a row, and twice that again for its two gradients.
//!
//! Traffic: each input and parameter is read once and the context written once; for gradients, the context's is read
//! and the gradients of inputs and parameters are written.

use std::time::Duration;

use crate::work::{Kind, Pass, Work};

/// The operations and bytes of a device in a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Multiply-adds in f32.
    pub multiply_adds: f64,
    /// Reciprocals in f32.
    pub reciprocals: f64,
    /// Bytes read and bytes written.
    pub bytes: f64,
}

/// The operations and bytes of a work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Multiply-adds in f32.
    pub multiply_adds: f64,
    /// Reciprocals in f32.
    pub reciprocals: f64,
    /// Bytes read and bytes written.
    pub bytes: f64,
}

/// The shortest time, and what takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The shortest time.
    pub time: Duration,
    /// The operations or bytes that take it, in the plural.
    pub limit: &'static str,
}

impl Counts {
    /// The counts of a pass over `work`; [`Pass::Backward`] is forward and backward.
    pub fn of(work: &Work, pass: Pass) -> Self {
        let (size, hidden) = (work.size as f64, work.hidden as f64);
        let (of_pair, reciprocals) = match (work.kind, pass) {
            (Kind::DotProduct, Pass::Forward) => (size + size, 0.0),
            (Kind::DotProduct, Pass::Backward) => (5.0 * size + 4.0 * size, 0.0),
            (_, Pass::Forward) => (4.0 * hidden + size, 0.5 * hidden),
            (_, Pass::Backward) => (24.0 * hidden + 4.0 * size, 3.5 * hidden),
        };
        let projected = match work.kind {
            Kind::Additive => work.batch * (work.queries + work.keys),
            Kind::Decoding => work.batch * work.queries,
            Kind::DotProduct => 0,
        };
        let times = match pass {
            Pass::Forward => 1.0,
            Pass::Backward => 3.0,
        };
        let pairs = work.pairs() as f64;
        let moved = work.inputs() + work.context();
        let moved = match pass {
            Pass::Forward => moved,
            Pass::Backward => 2 * moved,
        };
        Self {
            multiply_adds: pairs * of_pair + times * projected as f64 * size * hidden,
            reciprocals: pairs * reciprocals,
            bytes: (moved * work.dtype.size()) as f64,
        }
    }

    /// At these rates.
    pub fn floor(&self, rates: &Rates) -> Floor {
        let times = [
            (self.multiply_adds / rates.multiply_adds, "multiply-adds"),
            (self.reciprocals / rates.reciprocals, "reciprocals"),
            (self.bytes / rates.bytes, "bytes"),
        ];
        let longest =
            |a: (f64, &'static str), b: (f64, &'static str)| if b.0 > a.0 { b } else { a };
        let (seconds, limit) = times.into_iter().fold((0.0, "nothing"), longest);
        Floor {
            time: Duration::from_secs_f64(seconds),
            limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::DType;

    fn counts(multiply_adds: f64, reciprocals: f64, bytes: f64) -> Counts {
        Counts {
            multiply_adds,
            reciprocals,
            bytes,
        }
    }

    /// By hand: 30 pairs, 11 hidden units, values of 7; 16 rows of queries and keys to project, 7 * 11 each, 1232 in
    /// all. In go 2 * 3 * 7 + 2 * 5 * 14 = 182 numbers and 2 * 77 + 11 = 165 parameters, out come 42.
    #[test]
    fn additive() {
        let work = Work {
            hidden: 11,
            ..Work::additive(Kind::Additive, 2, [3, 5], 7)
        };
        let forward = counts(30.0 * 51.0 + 1232.0, 165.0, 4.0 * 389.0);
        assert_eq!(Counts::of(&work, Pass::Forward), forward);
        let both = counts(30.0 * 292.0 + 3.0 * 1232.0, 1155.0, 4.0 * 778.0);
        assert_eq!(Counts::of(&work, Pass::Backward), both);
    }

    /// 10 pairs; only two queries are projected; 2 * 7 + 10 * (11 + 7) inputs, 77 + 11 parameters, 14 of context.
    #[test]
    fn decoding() {
        let work = Work {
            hidden: 11,
            ..Work::additive(Kind::Decoding, 2, [1, 5], 7)
        };
        let forward = counts(10.0 * 51.0 + 154.0, 55.0, 4.0 * 296.0);
        assert_eq!(Counts::of(&work, Pass::Forward), forward);
    }

    /// 3 * 8 * 25 = 600 pairs; 24 * 5 * 3 * 64 = 23040 numbers in, 7680 out, of two bytes.
    #[test]
    fn dot_product_in_half_precision() {
        let work = Work {
            dtype: DType::F16,
            ..Work::dot_product(3, 5)
        };
        let forward = counts(600.0 * 128.0, 0.0, 2.0 * 30720.0);
        assert_eq!(Counts::of(&work, Pass::Forward), forward);
        let both = counts(600.0 * 576.0, 0.0, 2.0 * 61440.0);
        assert_eq!(Counts::of(&work, Pass::Backward), both);
    }

    #[test]
    fn the_slowest_is_the_limit() {
        let rates = Rates {
            multiply_adds: 10.0,
            reciprocals: 2.0,
            bytes: 5.0,
        };
        let floor = |a, b, c| {
            let floor = counts(a, b, c).floor(&rates);
            (floor.limit, floor.time.as_secs())
        };
        assert_eq!(floor(70.0, 12.0, 30.0), ("multiply-adds", 7));
        assert_eq!(floor(70.0, 16.0, 35.0), ("reciprocals", 8));
        assert_eq!(floor(70.0, 16.0, 45.0), ("bytes", 9));
    }
}
